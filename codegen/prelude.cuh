/* What emitted CUDA stands on: nothing is included, so that NVRTC needs no installation. */
#ifndef TC_PRELUDE_CUH
#define TC_PRELUDE_CUH
typedef signed char tc_i8; typedef unsigned char tc_u8;
typedef short tc_i16; typedef unsigned short tc_u16;
typedef int tc_i32; typedef unsigned int tc_u32;
typedef long long tc_i64; typedef unsigned long long tc_u64;
typedef float tc_f32; typedef double tc_f64;
typedef unsigned short tc_f16, tc_bf16;
typedef unsigned char tc_b;
#define TC_FN static __device__ __forceinline__
TC_FN tc_i64 tc_point() { return (tc_i64)blockIdx.x * blockDim.x + threadIdx.x; }
TC_FN tc_f32 tc_fmax_f32(tc_f32 a, tc_f32 b) { return fmaxf(a, b); }
#endif
