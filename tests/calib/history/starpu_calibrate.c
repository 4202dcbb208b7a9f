/* Lets StarPU calibrate models of its own: history, a*n^b, a*n^b+c, for vectors of seven lengths. */
#include <starpu.h>

static void work(void *buffers[], void *argument)
{
    (void)argument;
    unsigned n = STARPU_VECTOR_GET_NX(buffers[0]);
    volatile float *v = (float *)STARPU_VECTOR_GET_PTR(buffers[0]);
    for (unsigned round = 0; round < 5; round++)
        for (unsigned i = 0; i < n; i++)
            v[i] = v[i] * 1.0001f + 1.0f;
}

static struct starpu_perfmodel models[3] = {
    {.type = STARPU_HISTORY_BASED, .symbol = "hist"},
    {.type = STARPU_REGRESSION_BASED, .symbol = "line"},
    {.type = STARPU_NL_REGRESSION_BASED, .symbol = "curve"},
};
static struct starpu_codelet codelets[3];

int main(void)
{
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 1;
    conf.ncuda = 0;
    conf.nopencl = 0;
    if (starpu_init(&conf))
        return 77;
    for (int m = 0; m < 3; m++) {
        struct starpu_codelet *codelet = &codelets[m];
        codelet->cpu_funcs[0] = work;
        codelet->nbuffers = 1;
        codelet->modes[0] = STARPU_RW;
        codelet->model = &models[m];
        for (unsigned n = 1024; n <= 64 * 1024; n *= 2) {
            float *values = calloc(n, sizeof(float));
            starpu_data_handle_t handle;
            starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)values, n, sizeof(float));
            for (int repeat = 0; repeat < 15; repeat++) {
                struct starpu_task *task = starpu_task_create();
                task->cl = codelet;
                task->handles[0] = handle;
                if (starpu_task_submit(task))
                    return 77;
            }
            starpu_task_wait_for_all();
            starpu_data_unregister(handle);
            free(values);
        }
    }
    starpu_shutdown();
    return 0;
}
