/* What this core uses of CPython's stable ABI beyond the launcher's list (codegen/runtime/pyabi.h). */
#ifndef TC_PYABI_CORE_H
#define TC_PYABI_CORE_H
#include "codegen/runtime/pyabi.h"

typedef struct { PyObject ob_base; Py_ssize_t ob_size; } PyVarObject;
enum { METH_FASTCALL = 128 };
enum {                          /* of PyType_Slot */
  Py_mp_subscript = 5, Py_tp_descr_get = 54, Py_tp_setattro = 69, Py_nb_bool = 9, Py_nb_matrix_multiply = 75
};
#define Py_TPFLAGS_METHOD_DESCRIPTOR (1u << 17)
#define PyObject_GC_New(T, type) ((T *)_PyObject_GC_New(type))
#define PyObject_GC_NewVar(T, type, n) ((T *)_PyObject_GC_NewVar(type, n))

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
extern PyObject _Py_NotImplementedStruct, _Py_EllipsisObject;
extern char PySlice_Type[];
extern PyObject *PyExc_RuntimeError, *PyExc_AttributeError, *PyExc_IndexError, *PyExc_UserWarning;
PyObject *_PyObject_GC_New(PyTypeObject *);
PyObject *_PyObject_GC_NewVar(PyTypeObject *, Py_ssize_t);
void PyObject_GC_Track(void *);
int PyObject_GC_IsTracked(PyObject *);
void PyObject_GC_Del(void *);
int PyErr_CheckSignals(void);
PyObject *PyUnicode_Partition(PyObject *, PyObject *);
int PyErr_WarnEx(PyObject *, const char *, Py_ssize_t);
PyObject *PyType_FromSpecWithBases(PyType_Spec *, PyObject *);
PyObject *PyObject_Call(PyObject *, PyObject *, PyObject *);
void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
void PyErr_Restore(PyObject *, PyObject *, PyObject *);
void PyErr_WriteUnraisable(PyObject *);
void PyObject_ClearWeakRefs(PyObject *);
PyObject *PyObject_GenericGetDict(PyObject *, void *);
int PyObject_GenericSetDict(PyObject *, PyObject *, void *);
int PyObject_GenericSetAttr(PyObject *, PyObject *, PyObject *);
PyObject *PyList_GetItem(PyObject *, Py_ssize_t);
PyObject *PyDict_GetItemWithError(PyObject *, PyObject *);
int PySlice_Unpack(PyObject *, Py_ssize_t *, Py_ssize_t *, Py_ssize_t *);
Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t *, Py_ssize_t *, Py_ssize_t);
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#define Py_NotImplemented (&_Py_NotImplementedStruct)
#define Py_Ellipsis (&_Py_EllipsisObject)
/* The low half is the count, or beyond all counts, in every version. */
static inline int has_one_owner(void *o) { return *(int *)o == 1; }
#endif
