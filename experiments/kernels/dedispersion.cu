// Dedispersion of a radio telescope's signal: for each trial dispersion measure, the sum over all frequency
// channels of samples that are shifted by the channel's delay. A thread computes tile_size_x samples of
// tile_size_y dispersion measures: neighbours where the tile's stride is 0, a group's width (or height) apart
// where it is 1. The parameters, macros of this text, are those of the dedispersion in the AutoTuning
// Association's benchmark_hub (MIT), which was measured on six GPUs.
#ifndef block_size_x
#define block_size_x 16
#define block_size_y 32
#define tile_size_x 1
#define tile_size_y 1
#define tile_stride_x 0
#define tile_stride_y 0
#define samples 400
#define measures 64
#define channels 64
#define longest_delay 40
#endif

#define STEP_X (tile_stride_x ? block_size_x : 1)
#define STEP_Y (tile_stride_y ? block_size_y : 1)
#define FIRST_X (tile_stride_x ? threadIdx.x : threadIdx.x * tile_size_x)
#define FIRST_Y (tile_stride_y ? threadIdx.y : threadIdx.y * tile_size_y)

__global__ void dedispersion(const unsigned char *signal, float *sums, const float *delays)
{
  const int x = blockIdx.x * block_size_x * tile_size_x + FIRST_X;
  const int y = blockIdx.y * block_size_y * tile_size_y + FIRST_Y;

  for (int i = 0; i < tile_size_x; ++i) {
    const int sample = x + i * STEP_X;
    if (sample >= samples)
      continue;
    for (int j = 0; j < tile_size_y; ++j) {
      const int measure = y + j * STEP_Y;
      if (measure >= measures)
        continue;
      float sum = 0.0f;
      for (int channel = 0; channel < channels; ++channel) {
        const unsigned int delay = measure * 0.02f * delays[channel];
        sum += signal[channel * (samples + longest_delay) + sample + delay];
      }
      sums[measure * samples + sample] = sum;
    }
  }
}
