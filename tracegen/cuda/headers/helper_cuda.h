// Of the headers of CUDA's samples, what files with kernels use of them: the host does not run.
#pragma once
#include "memsim/kernel.h"
struct StopWatchInterface;
bool sdkCreateTimer(StopWatchInterface **);
bool sdkDeleteTimer(StopWatchInterface **);
bool sdkStartTimer(StopWatchInterface **);
bool sdkStopTimer(StopWatchInterface **);
bool sdkResetTimer(StopWatchInterface **);
float sdkGetTimerValue(StopWatchInterface **);
float sdkGetAverageTimerValue(StopWatchInterface **);
int findCudaDevice(int, const char **);
int gpuGetMaxGflopsDeviceId();
