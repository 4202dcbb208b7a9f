/* Runs the blocks of a kernel on this computer, thread by thread.

   Every thread of a block has a stack of its own where the kernel synchronises: a thread that waits at a
   barrier or for its warp gives way to the next thread of its warp, or else to the scheduler, which runs on
   a stack of its own. Kernels that never wait run one thread after the other on one stack.

   There, a thread gives way after TURN tokens. Threads of a warp access neighbouring memory at about the same
   time on a GPU; here, a thread that walked through a matrix alone would push out of the cache what the next
   one needs. One that has written very many tokens goes on alone: its loop may never end. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

typedef unsigned long word;

struct region { word base, bytes, place; };

struct launch {
  uint32_t grid[3], block[3];
  uint32_t warp, waits;
  void *kernel;
  char **arguments;
  struct region *regions;
  word n_regions;
  const uint32_t *groups;
  word n_groups;
  const int64_t *places; /* of each thread: where its tokens begin, and how many to skip; see tokens.py */
  word *tokens;
  uint32_t *counts;
  int64_t *fault;
  word *reached; /* by position: a bit for each array that an access of unclear origin touched */
  word most_turns;
  struct region *untraced; /* memory that may be accessed without a trace */
  word n_untraced;
  uint32_t *noted; /* by check, time and thread: 1 + the byte of the array, of the first times in one group */
  uint8_t *times;  /* by check and thread */
  uint32_t most_times, noted_group;
  word n_checks;
  const uint32_t *nests; /* by loop without accesses: the number of the outermost one around it */
  word *counted;         /* by loop: turns, and how often its nest was reached; see quiet_loops.py */
  word n_loops;
};

enum { FAULT = 1, MISALIGNED = 1, OUTSIDE = 0 };
enum { POSITION_ENDLESS = -1, POSITION_BEYOND = -2, POSITION_NOWHERE = -3, POSITION_STOPPED = -4 };
enum state { READY, AT_BARRIER, AT_WARP, ENDED };

/* One line of the cache: a switch from thread to thread touches no more. */
struct thread {
  word *next, *end, turns, *repeats; /* as in probes.h */
  word *begin;             /* of the tokens that `next` is behind */
  void *stack;
  uint32_t x, y, z;
  enum state state;
} __attribute__((aligned(64)));

/* Where the tokens of a thread go: those from number `skip` on, `room` of them. taken : those before `begin` */
struct record { word *first, skip, room, taken; };

#define COLD __attribute__((preserve_most, noinline, cold))
#define INLINE static inline __attribute__((always_inline))
struct thread *memsim_thread; /* that runs */
struct region memsim_regions[64];
extern word memsim_limits[];
extern void memsim_call(void *kernel, char **arguments);

static struct launch *launch;
static struct thread *threads, *end_of_warp;
static uint32_t n_threads, group[3], group_number;
static void *scheduler;
static char *stacks;
static word stacks_bytes, threads_bytes;
static int votes, last_votes, last_threads;

enum { WARPS = 32, LANES = 64, MOST_THREADS = 1024 };
static struct { word mask, value, place; } waits_for[MOST_THREADS]; /* of threads that wait for their warp */

/* Threads that take turns and write many tokens collect them until they fill two lines of the cache: each
   token would else fetch a line of memory. Tokens that nobody keeps go to `spare`. */
enum { STAGED = 16, WORTH_STAGES = 64, TURN = 128, ALONE = 1 << 20 };
static word staged[MOST_THREADS][STAGED] __attribute__((aligned(64))), spare[TURN];
static struct record records[MOST_THREADS];
static word *true_limits; /* while one group's accesses are noted, `memsim_limits` are 0 */
/* Turns of loops without accesses: of those of one warp that reach a nest for the same time, the most; of
   all times from NEST_TIMES on, of their sum. */
enum { NEST_TIMES = 32 };
static word *repeats, *reached; /* by thread and loop: as in probes.h; how often a nest was reached */
static word *most_repeats;      /* by warp, loop and time */
static word loops_bytes, most_bytes;
static word given[WARPS * 2][LANES]; /* what the lanes of each warp gave, twice in turn */
static word came[WARPS * 2];
static uint32_t turn_of[WARPS];

#define STACK_BYTES (128u << 10)

/* Saves the registers that a function must keep, and goes on with another stack. It ends with a jump: a
   processor predicts that a return goes back to the latest call, which was another thread's. */
void memsim_switch(void **from, void *to);
#if defined(__x86_64__)
__asm__(".text\n.globl memsim_switch\n.hidden memsim_switch\nmemsim_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\npop %rcx\njmp *%rcx\n");
enum { SAVED = 6 };
static void *prepared(char *top, void (*entry)(void)) {
  void **stack = (void **)top;
  *--stack = 0; /* the entry never returns; calls find the stack as after a call */
  *--stack = (void *)entry;
  for (int k = 0; k < SAVED; ++k)
    *--stack = 0;
  return stack;
}
#elif defined(__aarch64__)
__asm__(".text\n.globl memsim_switch\n.hidden memsim_switch\nmemsim_switch:\n"
        "stp x19, x20, [sp, #-160]!\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
        "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
        "stp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\n"
        "ldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "ldp x19, x20, [sp], #160\nbr x30\n");
static void *prepared(char *top, void (*entry)(void)) {
  void **stack = (void **)(top - 160);
  memset(stack, 0, 160);
  stack[11] = (void *)entry;
  return stack;
}
#else
#error "kernels run on x86-64 and AArch64"
#endif

static uint32_t current(void) { return (uint32_t)(memsim_thread - threads); }

unsigned memsim_thread_x(void) { return memsim_thread->x; }
unsigned memsim_thread_y(void) { return memsim_thread->y; }
unsigned memsim_thread_z(void) { return memsim_thread->z; }
unsigned memsim_block_x(void) { return group[0]; }
unsigned memsim_block_y(void) { return group[1]; }
unsigned memsim_block_z(void) { return group[2]; }
unsigned memsim_block_size_x(void) { return launch->block[0]; }
unsigned memsim_block_size_y(void) { return launch->block[1]; }
unsigned memsim_block_size_z(void) { return launch->block[2]; }
unsigned memsim_grid_size_x(void) { return launch->grid[0]; }
unsigned memsim_grid_size_y(void) { return launch->grid[1]; }
unsigned memsim_grid_size_z(void) { return launch->grid[2]; }
unsigned memsim_lane(void) { return current() % launch->warp; }
unsigned long long memsim_clock(void) {
  return records[current()].taken + (word)(memsim_thread->next - memsim_thread->begin);
}

static word least(word a, word b) { return a < b ? a : b; }

/* Takes the tokens of a thread: those on its stage go where they belong. */
INLINE void take(struct thread *self) {
  struct record *record = &records[self - threads];
  word *to = record->first + (record->taken - record->skip), n = (word)(self->next - self->begin);
  record->taken += n;
  if (self->begin != staged[self - threads])
    return;
  if (n == STAGED && !((word)to & 63))
    for (int k = 0; k < STAGED; ++k)
      __builtin_nontemporal_store(self->begin[k], to + k); /* whole lines need not be read before */
  else
    memcpy(to, self->begin, n * sizeof *to);
}

/* Says where the next tokens of a thread go, at most those of one turn. */
INLINE void place_tokens(struct thread *self) {
  struct record *record = &records[self - threads];
  word at = record->taken - record->skip, left = TURN - record->taken % TURN;
  if (record->taken < record->skip) {
    self->begin = spare, left = least(left, record->skip - record->taken);
  } else if (at >= record->room) {
    self->begin = spare;
  } else if (launch->waits && record->room > WORTH_STAGES) {
    word in_line = (word)(record->first + at) / sizeof(word) & 7; /* lines are whole from the next one on */
    self->begin = staged[self - threads], left = least(STAGED - in_line, record->room - at);
  } else {
    self->begin = record->first + at, left = least(left, record->room - at);
  }
  self->next = self->begin, self->end = self->begin + left;
}

INLINE void give_way(enum state state) {
  struct thread *self = memsim_thread, *next = self + 1;
  self->state = state;
  if (next < end_of_warp && next->state == READY) {
    memsim_thread = next;
    memsim_switch(&self->stack, next->stack);
  } else {
    memsim_switch(&self->stack, scheduler);
  }
}

COLD void memsim_full(void) {
  struct thread *self = memsim_thread;
  take(self);
  place_tokens(self);
  word taken = records[self - threads].taken;
  if (launch->waits || taken % TURN || taken > ALONE)
    return;
  self->state = READY;
  memsim_switch(&self->stack, scheduler);
}

static void fail(int64_t position, int64_t first, int64_t second, int64_t third) {
  int64_t report[7] = {FAULT, position, first, second, third, group_number, current()};
  memcpy(launch->fault, report, sizeof report);
  void *abandoned;
  memsim_switch(&abandoned, scheduler);
}

void memsim_outside(const char *address, word position, word number) {
  word offset = (word)address - memsim_regions[number].base;
  int outside = offset >= memsim_regions[number].bytes;
  fail((int64_t)position, (int64_t)offset, (int64_t)number, outside ? OUTSIDE : MISALIGNED);
}

void memsim_beyond(word number, word offset) {
  fail(POSITION_BEYOND, (int64_t)offset, (int64_t)number, 0);
}

void memsim_stop(const char *file, uint32_t line) {
  fail(POSITION_STOPPED, (int64_t)file, line, (int64_t)group_number * MOST_THREADS + current());
}

void memsim_endless(word line) {
  fail(POSITION_ENDLESS, (int64_t)group_number, current(), (int64_t)line);
}

/* An access through a pointer of unclear origin: finds its array, or memory that is not traced.
   is_private : whether it lies in an array of this thread */
void memsim_reach(const char *address, word position, word bytes, word misaligned, word is_private) {
  word at = (word)address;
  for (word k = 0; k < launch->n_regions; ++k) {
    struct region *array = &memsim_regions[k];
    word offset = at - array->base;
    if (offset >= array->bytes)
      continue;
    if (offset + bytes > array->bytes || offset & misaligned)
      memsim_outside(address, position, k);
    launch->reached[position] |= 1ul << k;
    *memsim_thread->next = position << 48 | (array->place + offset);
    if (++memsim_thread->next == memsim_thread->end)
      memsim_full();
    return;
  }
  if (is_private)
    return;
  for (word k = 0; k < launch->n_untraced; ++k) {
    struct region *array = &launch->untraced[k];
    if (at - array->base < array->bytes && at - array->base + bytes <= array->bytes)
      return;
  }
  fail(POSITION_NOWHERE, (int64_t)at, (int64_t)position, 0);
}

/* An access beyond its limit, or one of the group whose accesses to shared memory are noted. */
COLD void memsim_look(word number, word offset) {
  if (!true_limits || offset >= true_limits[number])
    fail(POSITION_BEYOND, (int64_t)offset, (int64_t)number, 0);
  uint8_t *times = &launch->times[number * n_threads + current()];
  if (*times < launch->most_times)
    launch->noted[(number * launch->most_times + (*times)++) * n_threads + current()] = (uint32_t)offset + 1;
}

/* What threads `first` to `end` access from now on is noted behind all that any of them has accessed: they have waited
   for each other. */
static void align_times(uint32_t first, uint32_t end) {
  for (word check = 0; true_limits && check < launch->n_checks; ++check) {
    uint8_t *times = launch->times + check * n_threads, latest = 0;
    for (uint32_t k = first; k < end; ++k)
      latest = times[k] > latest ? times[k] : latest;
    memset(times + first, latest, end - first);
  }
}

/* Takes what a thread has repeated a loop since it last reached the nest, for the n-th time. */
static void take_repeats(uint32_t thread, word loop, word n) {
  word row = thread / launch->warp * launch->n_loops + loop;
  word *mine = &repeats[thread * launch->n_loops + loop];
  if (n) {
    word *most = &most_repeats[row * NEST_TIMES + least(n, NEST_TIMES) - 1];
    *most = *mine > *most ? *mine : *most;
  }
  *mine = 0;
}

COLD void memsim_begin_nest(word nest) {
  if (!launch->counted)
    return;
  word *n = &reached[current() * launch->n_loops + nest];
  for (word loop = nest; *n < NEST_TIMES && loop < launch->n_loops && launch->nests[loop] == nest; ++loop)
    take_repeats(current(), loop, *n);
  ++*n;
}

/* Adds what the warps of a group have repeated. */
static void count_repeats(void) {
  word n_loops = launch->n_loops;
  for (uint32_t first = 0; first < n_threads; first += launch->warp)
    for (word loop = 0; loop < n_loops; ++loop) {
      word times = 0, *most = most_repeats + (first / launch->warp * n_loops + loop) * NEST_TIMES;
      for (uint32_t k = first; k < n_threads && k < first + launch->warp; ++k) {
        word n = reached[k * n_loops + launch->nests[loop]];
        take_repeats(k, loop, n);
        times = n > times ? n : times;
      }
      for (word k = 0; k < least(times, NEST_TIMES); ++k)
        launch->counted[2 * loop] += most[k], most[k] = 0;
      launch->counted[2 * loop + 1] += times;
    }
  memset(reached, 0, 8 * n_threads * n_loops);
}

void memsim_barrier(void) { give_way(AT_BARRIER); }

int memsim_barrier_votes(int vote, int *n) {
  votes += vote;
  memsim_barrier();
  *n = last_threads;
  return last_votes;
}

const word *memsim_warp(word mask, word value, word *arrived) {
  uint32_t self = current(), warp = self / launch->warp;
  waits_for[self].mask = mask, waits_for[self].value = value;
  waits_for[self].place = (word)__builtin_return_address(0);
  give_way(AT_WARP);
  uint32_t row = warp * 2 + (turn_of[warp] & 1);
  *arrived = came[row];
  return given[row];
}

/* The threads of a warp that wait, in the operation of one of them: those at its place, or at any. */
static word together_with(uint32_t lane, uint32_t first, uint32_t end, int at_any_place) {
  word together = 0;
  for (uint32_t k = first; k < end; ++k)
    if (threads[k].state == AT_WARP && (at_any_place || waits_for[k].place == waits_for[lane].place))
      together |= 1ul << (k - first);
  return waits_for[lane].mask ? together & waits_for[lane].mask : together;
}

enum { COMPLETE_HERE, COMPLETE_ANYWHERE, ALL_THERE_ARE };

/* Threads of a warp that wait go on together: where all that a mask names have come to one place, or else
   where they have come to several, or else those that are at the smallest place of the program. */
static void release_warp(uint32_t warp) {
  uint32_t first = warp * launch->warp;
  uint32_t end = first + launch->warp < n_threads ? first + launch->warp : n_threads;
  word alive = 0, chosen = 0, place = 0;
  for (uint32_t k = first; k < end; ++k)
    alive |= (word)(threads[k].state != ENDED) << (k - first);
  for (int rule = COMPLETE_HERE; rule <= ALL_THERE_ARE && !chosen; ++rule)
    for (uint32_t k = first; k < end; ++k) {
      word mask = waits_for[k].mask;
      if (threads[k].state != AT_WARP || (chosen && place <= waits_for[k].place))
        continue;
      word together = together_with(k, first, end, rule == COMPLETE_ANYWHERE && mask);
      word wanted = (mask ? mask : alive) & alive;
      if (rule == ALL_THERE_ARE || (wanted & ~together) == 0)
        chosen = together | 1ul << (k - first), place = waits_for[k].place;
    }
  uint32_t row = warp * 2 + (++turn_of[warp] & 1);
  came[row] = chosen;
  for (uint32_t k = first; k < end; ++k)
    if (chosen >> (k - first) & 1)
      given[row][k - first] = waits_for[k].value, threads[k].state = READY;
  if (chosen == alive)
    align_times(first, end);
}

static void run_thread(void) {
  memsim_call(launch->kernel, launch->arguments);
  give_way(ENDED);
}

/* Runs the threads of a warp until all wait for the block or have ended. */
static int run_warp(uint32_t warp) {
  struct thread *first = threads + warp * launch->warp, *end = first + launch->warp;
  end_of_warp = end < threads + n_threads ? end : threads + n_threads;
  for (;;) {
    int waiting = 0;
    for (struct thread *one = first; one < end_of_warp; ++one)
      if (one->state == READY) {
        memsim_thread = one;
        memsim_switch(&scheduler, one->stack);
        if (launch->fault[0])
          return 0;
        one = memsim_thread; /* the last of those that gave way to each other */
      }
    for (struct thread *one = first; one < end_of_warp; ++one)
      waiting |= one->state == AT_WARP;
    if (!waiting)
      return 1;
    release_warp(warp);
  }
}

static void run_block(void) {
  uint32_t n_warps = (n_threads + launch->warp - 1) / launch->warp;
  for (uint32_t k = 0; k < n_threads; ++k) {
    /* The tops of stacks lie at different places of the cache. */
    char *top = stacks + (word)(k + 1) * STACK_BYTES - (k % 61) * 64;
    threads[k].stack = prepared(top, run_thread);
    threads[k].state = READY;
  }
  votes = 0;
  for (int alive = 1; alive;) {
    for (uint32_t warp = 0; warp < n_warps; ++warp)
      if (!run_warp(warp))
        return;
    alive = 0;
    for (uint32_t k = 0; k < n_threads; ++k)
      if (threads[k].state == AT_BARRIER)
        threads[k].state = READY, ++alive;
    last_votes = votes, last_threads = alive, votes = 0;
    align_times(0, n_threads);
  }
}

/* Where no thread ever waits, one stack serves all threads of a warp, but those that give way keep theirs. */
static struct thread *fresh; /* the next that has not begun */
static void run_fresh(void) {
  while (fresh < end_of_warp) {
    memsim_thread = fresh++;
    memsim_call(launch->kernel, launch->arguments);
    take(memsim_thread);
    memsim_thread->state = ENDED;
  }
  void *abandoned;
  memsim_switch(&abandoned, scheduler);
}

static void run_in_order(void) {
  for (uint32_t first = 0; first < n_threads; first += launch->warp) {
    fresh = threads + first, end_of_warp = threads + least(first + launch->warp, n_threads);
    for (char *top = stacks; fresh < end_of_warp;) {
      top += STACK_BYTES - 64; /* the tops of stacks lie at different places of the cache */
      memsim_switch(&scheduler, prepared(top, run_fresh));
      if (launch->fault[0])
        return;
    }
    for (int ready = 1; ready;) {
      ready = 0;
      for (struct thread *one = threads + first; one < end_of_warp; ++one)
        if (one->state == READY) {
          memsim_thread = one, ready = 1;
          memsim_switch(&scheduler, one->stack);
          if (launch->fault[0])
            return;
        }
    }
  }
}

static void *mapped(word bytes) {
  void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? 0 : memory;
}

static void number_threads(word first) {
  uint32_t k = 0;
  for (uint32_t z = 0; z < launch->block[2]; ++z)
    for (uint32_t y = 0; y < launch->block[1]; ++y)
      for (uint32_t x = 0; x < launch->block[0]; ++x, ++k) {
        struct thread *self = &threads[k];
        struct record *record = &records[k];
        const int64_t *place = launch->places + 2 * (first + k);
        self->x = x, self->y = y, self->z = z;
        self->turns = launch->most_turns;
        self->repeats = repeats + (launch->counted ? k * launch->n_loops : 0);
        *record = (struct record){0};
        if (launch->tokens)
          *record = (struct record){launch->tokens + place[0], (word)place[1], (word)(place[2] - place[0]), 0};
        place_tokens(self);
      }
}

static void run_group(word number) {
  word first = number * n_threads;
  group_number = launch->groups[number];
  group[0] = group_number % launch->grid[0];
  group[1] = group_number / launch->grid[0] % launch->grid[1];
  group[2] = group_number / launch->grid[0] / launch->grid[1];
  number_threads(first);
  word limits[launch->n_checks + 1], limits_bytes = 8 * launch->n_checks;
  int noting = launch->noted && group_number == launch->noted_group;
  if (noting)
    true_limits = memcpy(limits, memsim_limits, limits_bytes), memset(memsim_limits, 0, limits_bytes);
  if (launch->waits)
    run_block();
  else
    run_in_order();
  if (noting)
    memcpy(memsim_limits, limits, limits_bytes), true_limits = 0;
  for (uint32_t k = 0; k < n_threads; ++k) {
    if (launch->waits)
      take(threads + k);
    launch->counts[first + k] = (uint32_t)records[k].taken;
  }
  if (launch->counted)
    count_repeats();
}

/* Calls of other kernels of the program, which have no probes. */
void memsim_loop(void) {}
void memsim_atomic(const void *address, word bytes) { (void)address, (void)bytes; }

int memsim_ignored(const char *format, ...) {
  (void)format;
  return 0;
}

/* Runs blocks in the order of their list; 0, or -1 where there is no memory for stacks. */
int memsim_run(struct launch *what) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* this process ends with its parent */
#endif
  const int broken[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  for (unsigned k = 0; k < sizeof broken / sizeof *broken; ++k)
    signal(broken[k], SIG_DFL); /* whatever reports crashes of Python is left out */
  launch = what;
  n_threads = what->block[0] * what->block[1] * what->block[2];
  stacks_bytes = (word)STACK_BYTES * n_threads;
  stacks = mapped(stacks_bytes);
  threads_bytes = sizeof(struct thread) * n_threads;
  threads = mapped(threads_bytes);
  loops_bytes = 8 * (word)n_threads * what->n_loops + 8;
  most_bytes = 8 * (word)((n_threads - 1) / what->warp + 1) * what->n_loops * NEST_TIMES + 8;
  repeats = mapped(loops_bytes), reached = mapped(loops_bytes), most_repeats = mapped(most_bytes);
  if (!stacks || !threads || !repeats || !reached || !most_repeats)
    return -1;
  memcpy(memsim_regions, what->regions, what->n_regions * sizeof(struct region));
  for (word k = 0; k < what->n_groups && !what->fault[0]; ++k)
    run_group(k);
  munmap(stacks, stacks_bytes);
  munmap(threads, threads_bytes);
  munmap(repeats, loops_bytes), munmap(reached, loops_bytes), munmap(most_repeats, most_bytes);
  return 0;
}
