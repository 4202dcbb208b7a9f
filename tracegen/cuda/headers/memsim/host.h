// The host's interface, declared so that files with host code compile; nothing of it runs.
#pragma once
#ifndef __HIPCC__
#undef CUDA_VERSION // clang's headers need an older one
#define CUDA_VERSION 12000
#define CUDART_VERSION CUDA_VERSION
#endif
struct CUstream_st;
struct CUevent_st;
typedef CUstream_st *cudaStream_t;
typedef CUevent_st *cudaEvent_t;
typedef cudaStream_t hipStream_t;
typedef cudaEvent_t hipEvent_t;
struct memsim_status {
  int code;
  memsim_status(int code = 0) : code(code) {}
  operator int() const { return code; }
};
typedef memsim_status cudaError_t;
typedef memsim_status cudaError;
typedef memsim_status hipError_t;
typedef memsim_status CUresult;
enum cudaStatus { cudaSuccess, cudaErrorInvalidValue, cudaErrorNotReady, cudaErrorMemoryAllocation, hipSuccess = 0 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice,
  hipMemcpyDeviceToHost,
  hipMemcpyDeviceToDevice,
  hipMemcpyDefault
};
typedef cudaMemcpyKind hipMemcpyKind;
enum cudaChannelFormatKind {
  cudaChannelFormatKindSigned,
  cudaChannelFormatKindUnsigned,
  cudaChannelFormatKindFloat,
  cudaChannelFormatKindNone
};
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1 };
enum cudaFlag {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout,
  cudaEventDefault,
  cudaHostAllocDefault,
  cudaHostAllocMapped,
  cudaDeviceMapHost,
  cudaDeviceScheduleAuto,
  cudaEventBlockingSync,
  cudaEventDisableTiming,
  cudaMemAttachGlobal,
  cudaStreamNonBlocking,
  cudaDevAttrMaxThreadsPerBlock,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlock,
  cudaDevAttrClockRate,
  cudaDevAttrMemoryClockRate,
  cudaDevAttrGlobalMemoryBusWidth,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaHostRegisterMapped,
  cudaLimitStackSize,
  cudaLimitMallocHeapSize,
  hipFuncAttributeMaxDynamicSharedMemorySize = 0,
  hipFuncCachePreferShared,
  hipFuncCachePreferL1,
  hipHostMallocDefault,
  hipHostMallocMapped,
  hipHostRegisterMapped,
  hipEventDisableTiming,
  hipStreamNonBlocking,
  hipLimitStackSize,
  hipLimitMallocHeapSize,
  hipErrorLaunchFailure,
  hipErrorInvalidValue,
  hipErrorNotReady,
  hipDeviceAttributeWarpSize,
  hipDeviceAttributeMultiprocessorCount,
  hipDeviceAttributeMaxThreadsPerBlock,
  hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributeClockRate,
  hipDeviceAttributeMemoryClockRate,
  hipDeviceAttributeMemoryBusWidth,
  hipDeviceAttributeMemoryPoolsSupported,
  hipDeviceAttributeConcurrentManagedAccess
};
struct cudaArray;
typedef cudaArray *cudaArray_t;
struct cudaChannelFormatDesc {
  int x, y, z, w;
  cudaChannelFormatKind f;
};
template <class T> cudaChannelFormatDesc cudaCreateChannelDesc();
cudaChannelFormatDesc cudaCreateChannelDesc(int, int, int, int, cudaChannelFormatKind);
struct cudaExtent {
  unsigned long width, height, depth;
};
typedef cudaExtent hipExtent;
struct cudaPitchedPtr {
  void *ptr;
  unsigned long pitch, xsize, ysize;
};
typedef cudaPitchedPtr hipPitchedPtr;
struct cudaDeviceProp {
  char name[256];
  unsigned long totalGlobalMem, sharedMemPerBlock, totalConstMem, sharedMemPerMultiprocessor;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor;
  int multiProcessorCount, memoryClockRate, memoryBusWidth, l2CacheSize, maxThreadsPerMultiProcessor;
  int computeMode, concurrentKernels, canMapHostMemory, integrated, deviceOverlap, kernelExecTimeoutEnabled;
  int ECCEnabled, asyncEngineCount, unifiedAddressing, managedMemory, cooperativeLaunch, pciBusID, pciDeviceID;
  int regsPerMultiprocessor, maxBlocksPerMultiProcessor, pciDomainID, textureAlignment;
  unsigned long memPitch, sharedMemPerBlockOptin;
};
typedef cudaDeviceProp hipDeviceProp_t;

extern "C" int __cudaPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0, void *stream = 0);
extern "C" int cudaConfigureCall(dim3 grid, dim3 block, unsigned long shared = 0, void *stream = 0);
extern "C" int __hipPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0, void *stream = 0);
#define MEMSIM_HOST(name)                                                                            \
  template <class... Any> cudaError_t cuda##name(Any &&...) { return 0; }                            \
  template <class... Any> cudaError_t hip##name(Any &&...) { return 0; }                             \
  template <class T, class... Any> cudaError_t cuda##name(T **, Any &&...) { return 0; }             \
  template <class T, class... Any> cudaError_t hip##name(T **, Any &&...) { return 0; }
MEMSIM_HOST(Malloc)
MEMSIM_HOST(MallocHost)
MEMSIM_HOST(MallocManaged)
MEMSIM_HOST(MallocPitch)
MEMSIM_HOST(Malloc3D)
MEMSIM_HOST(MallocAsync)
MEMSIM_HOST(HostMalloc)
MEMSIM_HOST(HostAlloc)
MEMSIM_HOST(HostFree)
MEMSIM_HOST(Free)
MEMSIM_HOST(FreeHost)
MEMSIM_HOST(FreeAsync)
MEMSIM_HOST(FreeArray)
MEMSIM_HOST(Memcpy)
MEMSIM_HOST(Memcpy2D)
MEMSIM_HOST(Memcpy2DAsync)
MEMSIM_HOST(MemcpyAsync)
MEMSIM_HOST(Memset)
MEMSIM_HOST(MemsetAsync)
MEMSIM_HOST(MemGetInfo)
MEMSIM_HOST(MemPrefetchAsync)
MEMSIM_HOST(MemAdvise)
MEMSIM_HOST(DeviceSynchronize)
MEMSIM_HOST(ThreadSynchronize)
MEMSIM_HOST(ThreadExit)
MEMSIM_HOST(DeviceReset)
MEMSIM_HOST(DeviceSetCacheConfig)
MEMSIM_HOST(DeviceSetLimit)
MEMSIM_HOST(DeviceGetLimit)
MEMSIM_HOST(DeviceSetSharedMemConfig)
MEMSIM_HOST(DeviceCanAccessPeer)
MEMSIM_HOST(DeviceEnablePeerAccess)
MEMSIM_HOST(DeviceDisablePeerAccess)
MEMSIM_HOST(DeviceGetStreamPriorityRange)
MEMSIM_HOST(StreamCreateWithPriority)
MEMSIM_HOST(DeviceGetAttribute)
MEMSIM_HOST(FuncSetCacheConfig)
MEMSIM_HOST(FuncSetAttribute)
MEMSIM_HOST(GetLastError)
MEMSIM_HOST(PeekAtLastError)
MEMSIM_HOST(GetDevice)
MEMSIM_HOST(GetDeviceCount)
MEMSIM_HOST(GetDeviceProperties)
MEMSIM_HOST(SetDevice)
MEMSIM_HOST(EventCreate)
MEMSIM_HOST(EventCreateWithFlags)
MEMSIM_HOST(EventDestroy)
MEMSIM_HOST(EventElapsedTime)
MEMSIM_HOST(EventRecord)
MEMSIM_HOST(EventSynchronize)
MEMSIM_HOST(StreamCreate)
MEMSIM_HOST(StreamCreateWithFlags)
MEMSIM_HOST(StreamDestroy)
MEMSIM_HOST(StreamSynchronize)
MEMSIM_HOST(StreamWaitEvent)
MEMSIM_HOST(BindTexture)
MEMSIM_HOST(UnbindTexture)
MEMSIM_HOST(ChooseDevice)
MEMSIM_HOST(HostGetDevicePointer)
MEMSIM_HOST(HostRegister)
MEMSIM_HOST(HostUnregister)
MEMSIM_HOST(Memcpy3D)
MEMSIM_HOST(MemcpyToArray)
MEMSIM_HOST(Memset2D)
MEMSIM_HOST(DriverGetVersion)
MEMSIM_HOST(RuntimeGetVersion)
MEMSIM_HOST(SetDeviceFlags)
MEMSIM_HOST(StreamQuery)
MEMSIM_HOST(EventQuery)
MEMSIM_HOST(MallocArray)
MEMSIM_HOST(Malloc3DArray)
MEMSIM_HOST(BindTextureToArray)
MEMSIM_HOST(CreateTextureObject)
MEMSIM_HOST(DestroyTextureObject)
MEMSIM_HOST(LaunchKernel)
MEMSIM_HOST(LaunchCooperativeKernel)
MEMSIM_HOST(OccupancyMaxActiveBlocksPerMultiprocessor)
MEMSIM_HOST(OccupancyMaxPotentialBlockSize)
#undef MEMSIM_HOST
template <class To, class... Any> cudaError_t cudaMemcpyToSymbol(To &, Any &&...) { return 0; }
template <class... Any> cudaError_t cudaMemcpyFromSymbol(Any &&...) { return 0; }
template <class... Any> cudaError_t cudaGetSymbolAddress(Any &&...) { return 0; }
template <class... Any> cudaError_t cudaMemcpyToSymbolAsync(Any &&...) { return 0; }
template <class... Any> cudaError_t hipMemcpyToSymbol(Any &&...) { return 0; }
template <class... Any> cudaError_t hipMemcpyFromSymbol(Any &&...) { return 0; }
const char *cudaGetErrorString(int);
const char *cudaGetErrorName(int);
const char *hipGetErrorString(int);
const char *hipGetErrorName(int);
#define HIP_SYMBOL(name) name
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define hipLaunchKernelGGL(kernel, grid, block, bytes, stream, ...)                                  \
  (kernel)<<<(grid), (block), (bytes), (stream)>>>(__VA_ARGS__)
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

// Of NVIDIA's samples: their own helper_cuda.h, which often lies beside a program, needs more of the host.
template <class... Any> void checkCudaErrors(Any &&...) {}
template <class... Any> void getLastCudaError(Any &&...) {}
template <class... Any> void sdkCheckErrors(Any &&...) {}
