/* tcdsl.codegen.runtime._core, one translation unit. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "pyabi.h"
#include "ndarray.h"
#include "tc_abi.h"
#include "exchange.h"
#include "storage.c"
#include "pool.c"
#include "operand.c"
#include "entry.c"
#include "plan.c"
#include "scalar.c"
#include "table.c"
#include "kinds.c"
#include "outputs.c"
#include "trace.c"
#include "launch.c"
#include "launcher.c"
#include "tensors.c"

static PyObject *m_setup(PyObject *m, PyObject *args) {
  PyObject *capsule, *types, *error;
  int bfloat16;
  if (!PyArg_ParseTuple(args, "OiOO", &capsule, &bfloat16, &types, &error) || numpy_setup(capsule, bfloat16))
    return NULL;
  scalar_types = Py_NewRef(types);
  internal_error = Py_NewRef(error);
  (void)m;
  return Py_NewRef(Py_None);
}

static PyObject *m_empty_cache(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyLong_FromLongLong((long long)empty_cache());
}

static PyObject *m_bridged(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyLong_FromLongLong(bridged);
}

static PyObject *m_set_num_threads(PyObject *m, PyObject *number) {
  (void)m;
  long long n = PyLong_AsLongLong(number);
  if (n == -1 && PyErr_Occurred()) return NULL;
  if (n < 1 || n > MAX_THREADS)
    return PyErr_Format(PyExc_ValueError, "the number of threads is 1 to %d, got %lld", MAX_THREADS, n);
  pool.threads = (int)n;
  return Py_NewRef(Py_None);
}

static PyObject *m_get_num_threads(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyLong_FromLongLong(pool.threads);
}

static PyObject *m_set_cache_limit(PyObject *m, PyObject *bytes) {
  (void)m;
  long long limit = PyLong_AsLongLong(bytes);
  if (limit < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a negative limit");
  cache_limit = (size_t)limit;
  if (cached_total() > cache_limit) empty_cache();
  return Py_NewRef(Py_None);
}

static PyObject *m_memory(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return Py_BuildValue("nnn", (Py_ssize_t)live_bytes, (Py_ssize_t)cached_total(), (Py_ssize_t)cache_limit);
}

static PyMethodDef module_methods[] = {{"setup", m_setup, METH_VARARGS, NULL},
                                       {"lend", m_lend, METH_VARARGS, NULL},
                                       {"bridge", m_bridge, METH_VARARGS, NULL},
                                       {"tensors", m_tensors, METH_VARARGS, NULL},
                                       {"bridged", m_bridged, METH_NOARGS, NULL},
                                       {"trace", m_trace, METH_O, NULL},
                                       {"traced", m_traced, METH_NOARGS, NULL},
                                       {"empty_cache", m_empty_cache, METH_NOARGS, NULL},
                                       {"set_cache_limit", m_set_cache_limit, METH_O, NULL},
                                       {"memory", m_memory, METH_NOARGS, NULL},
                                       {"set_num_threads", m_set_num_threads, METH_O, NULL},
                                       {"get_num_threads", m_get_num_threads, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", NULL, -1, module_methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) {
  PyObject *m = PyModule_Create2(&module, 1013);
  if (!m || storage_setup() || pool_setup()) return NULL;
  entry_type = (PyTypeObject *)PyType_FromSpec(&entry_spec);
  launcher_type = (PyTypeObject *)PyType_FromSpec(&launcher_spec);
  word_out = PyUnicode_InternFromString("out");
  word_outputs = PyUnicode_InternFromString("outputs");
  if (!entry_type || !launcher_type || !word_out || !word_outputs) return NULL;
  if (PyModule_AddObject(m, "Entry", (PyObject *)entry_type) ||
      PyModule_AddObject(m, "Launcher", (PyObject *)launcher_type) ||
      PyModule_AddObject(m, "MAX_THREADS", PyLong_FromLongLong(MAX_THREADS)))
    return NULL;
  return m;
}
