/* tcdsl.core._core, one translation unit: the type Tensor, what Python sets up, the module. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>
#include "core/core.h"
#include "core/idle.c"
#include "core/tensor.c"
#include "core/node.c"
#include "core/recipe.c"
#include "core/keep.c"
#include "core/face.c"
#include "core/operators.c"
#include "core/op.c"
#include "core/layouts.c"
#include "core/views.c"
#include "core/function.c"
#include "core/walk.c"
#include "core/sums.c"
#include "core/backward.c"
#include "core/makers.c"
#include "core/records.c"
#include "core/modes.c"

static PyObject *tensor_backward(Tensor *t, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  if (n || keywords) { /* in Python: what is not the usual call */
    PyObject *all[8] = {(PyObject *)t};
    Py_ssize_t n_all = n + (keywords ? PyTuple_Size(keywords) : 0);
    if (n_all > 7) {
      PyErr_SetString(PyExc_TypeError, "backward() got too many arguments");
      return NULL;
    }
    memcpy(all + 1, args, (size_t)n_all * sizeof *all);
    return PyObject_Vectorcall(py.backward, all, (size_t)n + 1, keywords);
  }
  PyObject *root = (PyObject *)t, *none = Py_None;
  return backward(&root, &none, 1, NULL, 0, 0);
}

static PyMethodDef more_tensor_methods[] = {{"backward", FAST(tensor_backward), METH_FASTCALL | METH_KEYWORDS, NULL}};

/* Tensor(other): another tensor over the same memory, of this class; of Tensor itself, what Python makes of all else. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *of = PyTuple_Size(args) == 1 && !kwargs ? PyTuple_GetItem(args, 0) : NULL;
  if (!of || !is_tensor(of)) {
    if (type == tensor_type && py.construct) return PyObject_Call(py.construct, args, kwargs);
    PyErr_SetString(PyExc_TypeError, "expected a Tensor");
    return NULL;
  }
  const Tensor *t = (Tensor *)of;
  int nd = rank_of(&t->head);
  return (PyObject *)tensor_view(type, t, nd, t->head.dims, t->head.dims + nd, 0);
}

/* setup(name, value): see `py` in core.h. */
static PyObject *m_setup(PyObject *m, PyObject *args) {
  static const struct {
    const char *name;
    PyObject **at;
  } known[] = {
#define KNOWN(name) {#name, &py.name}
      KNOWN(size_type), KNOWN(dtypes), KNOWN(bind), KNOWN(add), KNOWN(host), KNOWN(gpu), KNOWN(add_into),
      KNOWN(copy), KNOWN(laid_as), KNOWN(zeros), KNOWN(one), KNOWN(fit), KNOWN(hooked), KNOWN(renew),
      KNOWN(backward), KNOWN(on_host), KNOWN(place), KNOWN(trace), KNOWN(judge), KNOWN(construct),
      KNOWN(is_laid), KNOWN(leaf_node), KNOWN(node_type), KNOWN(around), KNOWN(pack), KNOWN(unpack),
      KNOWN(packed), KNOWN(written), KNOWN(refusal), KNOWN(remade)
#undef KNOWN
  };
  const char *name;
  PyObject *value;
  (void)m;
  if (!PyArg_ParseTuple(args, "sO", &name, &value)) return NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) {
      PyObject *old = *known[i].at;
      *known[i].at = Py_NewRef(value);
      Py_DecRef(old);
      return Py_NewRef(Py_None);
    }
  return PyErr_Format(PyExc_ValueError, "there is no '%s' to set up", name);
}

/* take_runtime(capsule, numbers of the types that are floats) */
static PyObject *m_take_runtime(PyObject *m, PyObject *args) {
  PyObject *capsule, *floats;
  (void)m;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &floats)) return NULL;
  rt = PyCapsule_GetPointer(capsule, TC_RUNTIME_NAME);
  for (Py_ssize_t i = 0, n = tuple_length(floats); i < n; i++) {
    long long number = PyLong_AsLongLong(PyTuple_GetItem(floats, i));
    if (number >= 0 && number < MOST_TYPES) is_float[number] = 1;
  }
  return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static int tracks(void) { return grad_on; }

static PyMethodDef module_methods[] = {{"empty", m_empty, METH_VARARGS, NULL},
                                       {"lent", m_lent, METH_VARARGS, NULL},
                                       {"over", m_over, METH_O, NULL},
                                       {"view", m_view, METH_VARARGS, NULL},
                                       {"retyped", m_retyped, METH_VARARGS, NULL},
                                       {"record", m_record, METH_VARARGS, NULL},
                                       {"made_by", m_made_by, METH_VARARGS, NULL},
                                       {"set_fn", m_set_fn, METH_VARARGS, NULL},
                                       {"set_base", m_set_base, METH_VARARGS, NULL},
                                       {"apart", m_apart, METH_O, NULL},
                                       {"written", m_written, METH_O, NULL},
                                       {"fresh", m_fresh, METH_O, NULL},
                                       {"check_write", m_check_write, METH_VARARGS, NULL},
                                       {"arrives", m_arrives, METH_O, NULL},
                                       {"backward", m_backward, METH_VARARGS, NULL},
                                       {"is_grad_enabled", m_is_grad_enabled, METH_NOARGS, NULL},
                                       {"set_grad_enabled", m_set_grad_enabled, METH_O, NULL},
                                       {"is_inference_mode", m_is_inference_mode, METH_NOARGS, NULL},
                                       {"set_inference_mode", m_set_inference_mode, METH_O, NULL},
                                       {"set_saving", m_set_saving, METH_O, NULL},
                                       {"saving", m_saving, METH_NOARGS, NULL},
                                       {"is_casting", m_is_casting, METH_NOARGS, NULL},
                                       {"set_casting", m_set_casting, METH_O, NULL},
                                       {"operator", m_operator, METH_VARARGS, NULL},
                                       {"setup", m_setup, METH_VARARGS, NULL},
                                       {"take_runtime", m_take_runtime, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", NULL, -1, module_methods, NULL, NULL, NULL, NULL};

static PyTypeObject *make_tensor_type(void) {
  static PyMethodDef methods[sizeof tensor_methods / sizeof *tensor_methods + 1];
  size_t n = sizeof tensor_methods / sizeof *tensor_methods - 1;
  memcpy(methods, tensor_methods, n * sizeof *methods);
  methods[n] = more_tensor_methods[0];
#define BINARY_SLOT(k) {k, binary_##k},
#define UNARY_SLOT(k) {k, unary_##k},
  PyType_Slot slots[] = {{Py_tp_new, tensor_new},         {Py_tp_dealloc, tensor_dealloc}, {Py_tp_traverse, tensor_traverse},
                         {Py_tp_clear, tensor_clear},     {Py_tp_getset, tensor_getset},   {Py_tp_members, tensor_members},
                         {Py_tp_methods, methods},        {Py_tp_setattro, tensor_setattro},
                         {Py_nb_bool, tensor_bool},       {33, power_33},                  {20, power_20},
                         EACH_BINARY(BINARY_SLOT) EACH_UNARY(UNARY_SLOT) {0, NULL}};
  PyType_Spec spec = {"tcdsl.Tensor", sizeof(Tensor), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return (PyTypeObject *)PyType_FromSpec(&spec);
}

PyMODINIT_FUNC PyInit__core(void) {
  static tc_tensors ours = {TC_TENSOR_ABI, NULL, tensor_fresh, tracks};
  PyObject *m = PyModule_Create2(&module, 1013);
  tensor_type = make_tensor_type();
  node_type = (PyTypeObject *)PyType_FromSpec(&node_spec);
  recipe_type = (PyTypeObject *)PyType_FromSpec(&recipe_spec);
  op_type = (PyTypeObject *)PyType_FromSpec(&op_spec);
  plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
  view_type = (PyTypeObject *)PyType_FromSpec(&view_spec);
  function_type = (PyTypeObject *)PyType_FromSpec(&function_spec);
  method_type = (PyTypeObject *)PyType_FromSpec(&method_spec);
  PyObject *sizes_type = PyType_FromSpecWithBases(&sizes_spec, (PyObject *)(void *)PyTuple_Type);
  if (!m || !function_type || !method_type || !sizes_type || !plan_type || !tensor_type || !node_type || !recipe_type || !op_type || !view_type)
    return NULL;
  ours.type = tensor_type;
  pthread_atfork(NULL, NULL, forget_runs);
  const struct {
    const char *name;
    PyObject *value;
  } all[] = {{"Tensor", (PyObject *)tensor_type},     {"Node", (PyObject *)node_type},
             {"Recipe", (PyObject *)recipe_type},     {"Op", (PyObject *)op_type},
             {"View", (PyObject *)view_type},         {"Function", (PyObject *)function_type},
             {"Method", (PyObject *)method_type},     {"Sizes", sizes_type},
             {"functions", PyCapsule_New(&ours, TC_TENSORS_NAME, NULL)}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (PyModule_AddObject(m, all[i].name, all[i].value)) return NULL;
  return m;
}
