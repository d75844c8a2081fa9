/* Function: a function of Python's that is also called by further names of its arguments, and in whose place another one
 * is called where operations choose their types. All other calls are handed on as they come.
 *
 * Method: a callable of the core's as a method. The callable is none: in a class of the user's it stays what it is, as a
 * builtin does. */

typedef struct {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject *function, *dict;
  PyObject *names; /* NULL, None, or a dict: further names of arguments, and what the function calls them */
  PyObject *cast;  /* NULL, None, or a callable: as of an Op */
  PyObject *into;  /* NULL, None, or a callable that takes calls with an argument whose name names have as None's */
} Function;

static PyTypeObject *function_type;

/* The words of a call as the function has them: the same tuple where none is another name, None where one is not the
 * function's; a new reference. */
static PyObject *words_of(PyObject *names, PyObject *keywords) {
  PyObject *found = NULL;
  Py_ssize_t n = PyTuple_Size(keywords);
  for (Py_ssize_t k = 0; k < n; k++) {
    PyObject *own = PyDict_GetItemWithError(names, PyTuple_GetItem(keywords, k));
    if (!own && PyErr_Occurred()) goto failed;
    if (!own) continue;
    if (own == Py_None) {
      Py_DecRef(found);
      return Py_NewRef(own);
    }
    if (!found && !(found = PyTuple_New(n))) return NULL;
    PyTuple_SetItem(found, k, Py_NewRef(own));
  }
  if (!found) return Py_NewRef(keywords);
  for (Py_ssize_t k = 0; k < n; k++)
    if (!PyTuple_GetItem(found, k)) PyTuple_SetItem(found, k, Py_NewRef(PyTuple_GetItem(keywords, k)));
  return found;
failed:
  Py_DecRef(found);
  return NULL;
}

static PyObject *function_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  Function *f = (Function *)self;
  if (casting && is_set(f->cast)) return PyObject_Vectorcall(f->cast, args, nargsf, keywords);
  PyObject *words = keywords && is_set(f->names) ? words_of(f->names, keywords) : NULL;
  if (!words && keywords && is_set(f->names)) return NULL;
  int is_into = words == Py_None;
  PyObject *result = PyObject_Vectorcall(is_into ? f->into : f->function, args, nargsf,
                                         words && !is_into ? words : keywords);
  Py_DecRef(words);
  return result ? result : refused(f->function, args, nargsf);
}

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"function", NULL};
  PyObject *function;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &function)) return NULL;
  Function *f = (Function *)PyType_GenericAlloc(type, 0);
  if (!f) return NULL;
  f->call = function_call;
  f->function = Py_NewRef(function);
  return (PyObject *)f;
}

static int function_traverse(Function *f, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(f));
  Py_VISIT(f->function);
  Py_VISIT(f->names);
  Py_VISIT(f->cast);
  Py_VISIT(f->into);
  Py_VISIT(f->dict);
  return 0;
}

static int function_clear(Function *f) {
  Py_CLEAR(f->function);
  Py_CLEAR(f->names);
  Py_CLEAR(f->cast);
  Py_CLEAR(f->into);
  Py_CLEAR(f->dict);
  return 0;
}

static void function_dealloc(Function *f) {
  PyTypeObject *type = Py_TYPE(f);
  PyObject_GC_UnTrack(f);
  function_clear(f);
  PyObject_GC_Del(f);
  Py_DecRef((PyObject *)type);
}

static PyObject *function_repr(Function *f) { return PyUnicode_FromFormat("%R", f->function); }

static PyMemberDef function_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, call), READONLY, NULL},
                                         {"__dictoffset__", T_PYSSIZET, offsetof(Function, dict), READONLY, NULL},
                                         {"__wrapped__", T_OBJECT, offsetof(Function, function), READONLY, NULL},
                                         {"names", T_OBJECT, offsetof(Function, names), 0, NULL},
                                         {"cast", T_OBJECT, offsetof(Function, cast), 0, NULL},
                                         {"into", T_OBJECT, offsetof(Function, into), 0, NULL},
                                         {NULL, 0, 0, 0, NULL}};
static PyGetSetDef function_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                        {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot function_slots[] = {
    {Py_tp_new, function_new},          {Py_tp_dealloc, function_dealloc}, {Py_tp_traverse, function_traverse},
    {Py_tp_clear, function_clear},      {Py_tp_call, PyVectorcall_Call},   {Py_tp_members, function_members},
    {Py_tp_repr, function_repr},        {Py_tp_getset, function_getset},   {0, NULL}};
static PyType_Spec function_spec = {
    "tcdsl.core._core.Function", sizeof(Function), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, function_slots};

typedef struct { PyObject ob_base; vectorcallfunc call; } Callable; /* how an Op, a View and a Function begin */
typedef struct {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject *function, *dict; /* its attributes are the function's */
} Method;

static PyTypeObject *method_type;

static PyObject *method_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  PyObject *function = ((Method *)self)->function;
  return ((Callable *)function)->call(function, args, nargsf, keywords);
}

/* x.f(...) makes no bound method, as of a function; x.f alone does. */
static PyObject *method_get(PyObject *self, PyObject *object, PyObject *type) {
  (void)type;
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyObject_CallFunction(py.bind, "OO", ((Method *)self)->function, object);
}

static PyObject *method_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"function", NULL};
  PyObject *function;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &function)) return NULL;
  void *of = Py_TYPE(function);
  if (of != op_type && of != view_type && of != function_type) {
    PyErr_SetString(PyExc_TypeError, "Method takes an Op, a View or a Function");
    return NULL;
  }
  PyObject *dict = PyObject_GenericGetDict(function, NULL);
  Method *m = dict ? (Method *)PyType_GenericAlloc(type, 0) : NULL;
  if (!m) {
    Py_DecRef(dict);
    return NULL;
  }
  m->call = method_call;
  m->function = Py_NewRef(function);
  m->dict = dict;
  return (PyObject *)m;
}

static int method_traverse(Method *m, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(m));
  Py_VISIT(m->function);
  Py_VISIT(m->dict);
  return 0;
}

static int method_clear(Method *m) {
  Py_CLEAR(m->function);
  Py_CLEAR(m->dict);
  return 0;
}

static void method_dealloc(Method *m) {
  PyTypeObject *type = Py_TYPE(m);
  PyObject_GC_UnTrack(m);
  method_clear(m);
  PyObject_GC_Del(m);
  Py_DecRef((PyObject *)type);
}

static PyObject *method_repr(Method *m) { return PyUnicode_FromFormat("<method %R>", m->function); }

static PyMemberDef method_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, call), READONLY, NULL},
                                       {"__dictoffset__", T_PYSSIZET, offsetof(Method, dict), READONLY, NULL},
                                       {"__wrapped__", T_OBJECT, offsetof(Method, function), READONLY, NULL},
                                       {NULL, 0, 0, 0, NULL}};
static PyType_Slot method_slots[] = {
    {Py_tp_new, method_new},         {Py_tp_dealloc, method_dealloc}, {Py_tp_traverse, method_traverse},
    {Py_tp_clear, method_clear},     {Py_tp_call, PyVectorcall_Call}, {Py_tp_descr_get, method_get},
    {Py_tp_members, method_members}, {Py_tp_repr, method_repr},       {Py_tp_getset, function_getset},
    {0, NULL}};
static PyType_Spec method_spec = {
    "tcdsl.core._core.Method", sizeof(Method), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, method_slots};
