/* The part of CPython's stable ABI that the core uses, declared by hand.
 *
 * So no python3-dev is needed (who can compile a kernel can compile the core), and one binary serves
 * every CPython from 3.11 on that has a GIL; builds without one have another object header, and
 * build.py refuses them. tests/codegen/runtime/test_build.py holds `nm -u` against this list.
 */
#ifndef TC_PYABI_H
#define TC_PYABI_H
#include <stddef.h>

typedef ptrdiff_t Py_ssize_t;
typedef struct _typeobject PyTypeObject;
typedef struct _ts PyThreadState;
typedef int PyGILState_STATE;
typedef struct { Py_ssize_t ob_refcnt; PyTypeObject *ob_type; } PyObject;
#define Py_TYPE(o) (((PyObject *)(o))->ob_type)

typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *);
typedef int (*visitproc)(PyObject *, void *);
typedef PyObject *(*getter)(PyObject *, void *);
typedef int (*setter)(PyObject *, PyObject *, void *);
typedef struct { const char *name; PyCFunction meth; int flags; const char *doc; } PyMethodDef;
typedef struct { const char *name; getter get; setter set; const char *doc; void *closure; } PyGetSetDef;
typedef struct { const char *name; int type; Py_ssize_t offset; int flags; const char *doc; } PyMemberDef;
typedef struct { int slot; void *pfunc; } PyType_Slot;
typedef struct { const char *name; int basicsize, itemsize; unsigned flags; PyType_Slot *slots; } PyType_Spec;
typedef struct {
  PyObject ob_base;
  PyObject *(*m_init)(void);
  Py_ssize_t m_index;
  PyObject *m_copy;
} PyModuleDef_Base;
typedef struct {
  PyModuleDef_Base m_base;
  const char *m_name, *m_doc;
  Py_ssize_t m_size;
  PyMethodDef *m_methods;
  void *m_slots, *m_traverse, *m_clear, *m_free;
} PyModuleDef;

enum { METH_VARARGS = 1, METH_KEYWORDS = 2, METH_NOARGS = 4, METH_O = 8, METH_CLASS = 16 };
enum { T_OBJECT = 6, T_UINT = 11, T_PYSSIZET = 19, READONLY = 1 }; /* of PyMemberDef */
enum {                                                /* of PyType_Slot */
  Py_tp_call = 50, Py_tp_clear = 51, Py_tp_dealloc = 52, Py_tp_doc = 56, Py_tp_init = 60, Py_tp_methods = 64,
  Py_tp_new = 65, Py_tp_repr = 66, Py_tp_traverse = 71, Py_tp_members = 72, Py_tp_getset = 73, Py_tp_free = 74
};
#define Py_TPFLAGS_DEFAULT (1u << 18)
#define Py_TPFLAGS_BASETYPE (1u << 10)
#define Py_TPFLAGS_HAVE_VECTORCALL (1u << 11)
#define Py_TPFLAGS_HAVE_GC (1u << 14)
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1u << 7)
#define PyModuleDef_HEAD_INIT {{1, NULL}, NULL, 0, NULL}
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#define PyVectorcall_NARGS(n) ((Py_ssize_t)((n) & ~PY_VECTORCALL_ARGUMENTS_OFFSET))

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
extern PyObject _Py_NoneStruct;
extern char PyFloat_Type[], PyLong_Type[], PyBool_Type[], PyTuple_Type[], PyType_Type[]; /* only their addresses matter */
extern const unsigned long Py_Version; /* of the interpreter that runs */
extern PyObject *PyExc_TypeError, *PyExc_ValueError, *PyExc_OverflowError, *PyExc_MemoryError;
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
PyObject *PyErr_Occurred(void);
int PyErr_ExceptionMatches(PyObject *);
PyObject *PyErr_NoMemory(void);
PyObject *PyErr_Format(PyObject *, const char *, ...);
void PyErr_SetString(PyObject *, const char *);
void PyErr_Clear(void);
PyObject *PyType_FromSpec(PyType_Spec *);
PyObject *PyType_GenericAlloc(PyTypeObject *, Py_ssize_t);
void *PyType_GetSlot(PyTypeObject *, int);
unsigned long PyType_GetFlags(PyTypeObject *);
int PyType_IsSubtype(PyTypeObject *, PyTypeObject *);
PyObject *PyObject_Init(PyObject *, PyTypeObject *);
void PyObject_GC_UnTrack(void *);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
PyObject *PyTuple_New(Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyLong_FromLongLong(long long);
long long PyLong_AsLongLong(PyObject *);
unsigned long long PyLong_AsUnsignedLongLong(PyObject *);
void *PyLong_AsVoidPtr(PyObject *);
double PyFloat_AsDouble(PyObject *);
PyObject *PyNumber_Index(PyObject *);
PyObject *PyUnicode_FromFormat(const char *, ...);
PyObject *PyUnicode_InternFromString(const char *);
int PyObject_IsTrue(PyObject *);
PyObject *PyObject_GetAttr(PyObject *, PyObject *);
PyObject *PyObject_CallFunction(PyObject *, const char *, ...);
PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
PyObject *PyVectorcall_Call(PyObject *, PyObject *, PyObject *);
PyObject *Py_BuildValue(const char *, ...);
int PyArg_ParseTuple(PyObject *, const char *, ...);
int PyArg_ParseTupleAndKeywords(PyObject *, PyObject *, const char *, char **, ...);
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
PyObject *PyBool_FromLong(long);
PyObject *PyFloat_FromDouble(double);
PyObject *PyLong_FromUnsignedLongLong(unsigned long long);
int Py_IsInitialized(void);
PyGILState_STATE PyGILState_Ensure(void);
void PyGILState_Release(PyGILState_STATE);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
PyObject *PyModule_Create2(PyModuleDef *, int);
int PyModule_AddObject(PyObject *, const char *, PyObject *);
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#define Py_None (&_Py_NoneStruct)
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *
static inline PyObject *Py_NewRef(void *o) { Py_IncRef((PyObject *)o); return (PyObject *)o; }
static inline int is_type(PyObject *o) { return PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)(void *)PyType_Type); }
static inline int is_tuple_type(PyObject *o) {
  return is_type(o) && PyType_IsSubtype((PyTypeObject *)o, (PyTypeObject *)(void *)PyTuple_Type);
}
static inline Py_ssize_t tuple_length(PyObject *o) {
  if (is_tuple_type((PyObject *)Py_TYPE(o))) return PyTuple_Size(o);
  PyErr_SetString(PyExc_TypeError, "expected a tuple");
  return -1;
}
#define Py_VISIT(o) do { if (o) { int v_ = visit((PyObject *)(o), arg); if (v_) return v_; } } while (0)
#define Py_CLEAR(o) do { PyObject *t_ = (PyObject *)(o); (o) = NULL; Py_DecRef(t_); } while (0) /* Py_DecRef takes NULL */
#endif
