/* How a library's own native code tells the launcher about its arrays: what `exchange.h` and the rules of `lend` say,
 * at a few ns each. The launcher is C and knows no library; who compiles a bridge includes this from C or C++.
 *
 * References: DLPack 1.3, dlpack.h: DLDataType, DLTensor.
 */
#ifndef TC_BRIDGE_H
#define TC_BRIDGE_H

enum { TC_BRIDGE_ABI = 1 };
#define TC_BRIDGE_NAME "tcdsl.bridge" /* of the capsule */

typedef struct {
  unsigned char code, bits;
  unsigned short lanes;
} DLDataType;
typedef struct {
  void *data;
  int device_type, device_id, ndim;
  DLDataType dtype;
  long long *shape, *strides; /* strides in elements; NULL before version 1.2: C order */
  unsigned long long byte_offset;
} DLTensor;

enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6 };
enum { DL_CPU = 1 };

enum { TC_UNUSUAL = 1, TC_TRACKS = 2 };        /* of a moment, as bits */
enum { TC_NOT_PLAIN, TC_PLAIN, TC_IS_TRACKED }; /* of an array */

/* All are called with the GIL, and run no Python but for what says so. Objects are `PyObject *`. */
typedef struct {
  int abi;
  /* Asked once a call: whether all calls are slow's now, and else whether tracked arrays are. */
  int (*moment)(void);
  /* Whether there is no more to an array than its memory on this machine, which is then described until control
   * returns, or whether, while `tracks`, it is tracked. Sets no error. */
  int (*view_of)(void *object, int tracks, DLTensor *to);
  /* A fresh array in C order of the type and shape of a model, described as well; NULL with an error set. */
  void *(*make)(void *model, DLTensor *to);
  /* Told of an array that was written; not 0 with an error set. */
  int (*written)(void *object);
} tc_bridge;
#endif
