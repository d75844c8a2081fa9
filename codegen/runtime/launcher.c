/* The Launcher type: making one, its table seen from Python, its life. */

static int launcher_init(Launcher *l, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", "params", "returns", "slow", "on_error", "result_type", "generics", "defaults", NULL};
  PyObject *name, *params, *returns, *slow, *on_error, *result_type = Py_None, *generics = NULL, *defaults = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO|OOO", names, &name, &params, &returns, &slow, &on_error,
                                   &result_type, &generics, &defaults))
    return -1;
  if (l->slow) {
    PyErr_SetString(PyExc_TypeError, "a launcher is initialised once");
    return -1;
  }
  Py_ssize_t n_params = tuple_length(params), n_returns = tuple_length(returns);
  Py_ssize_t n_generics = generics ? tuple_length(generics) : 0;
  Py_ssize_t n_defaults = defaults == Py_None ? n_params : tuple_length(defaults);
  if (n_params < 0 || n_returns < 0 || n_generics < 0 || n_defaults < 0) return -1;
  if (n_defaults != n_params) {
    PyErr_SetString(PyExc_ValueError, "defaults has a number or None for each parameter");
    return -1;
  }
  if (n_returns == 0 || n_params + n_returns > MAX_OPERANDS) {
    PyErr_Format(PyExc_ValueError, "a kernel has 1 return or more, and at most %d parameters and returns",
                 MAX_OPERANDS);
    return -1;
  }
  if (n_returns > 1 && !is_tuple_type(result_type)) {
    PyErr_SetString(PyExc_TypeError, "several returns need a tuple type for results");
    return -1;
  }
  l->n_params = (int)n_params;
  l->n_returns = (int)n_returns;
  l->n_generics = n_generics > MAX_GENERICS ? MAX_GENERICS : (int)n_generics; /* calls by later ones are slow's */
  l->name = Py_NewRef(name);
  l->params = Py_NewRef(params);
  l->returns = Py_NewRef(returns);
  l->generics = generics ? Py_NewRef(generics) : NULL;
  l->defaults = defaults == Py_None ? NULL : Py_NewRef(defaults);
  l->on_error = Py_NewRef(on_error);
  l->result_type = Py_NewRef(result_type);
  l->slow = Py_NewRef(slow);
  return 0;
}

static PyObject *launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)args, (void)kwargs; /* a subclass may have its own __init__ */
  Launcher *l = (Launcher *)PyType_GenericAlloc(type, 0);
  if (!l) return NULL;
  l->call = launcher_call;
  l->n_params = -1;
  l->chance = 1;
  return &l->ob_base;
}

static int launcher_traverse(Launcher *l, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(l));
  Py_VISIT(l->slow);
  Py_VISIT(l->on_error);
  Py_VISIT(l->result_type);
  Py_VISIT(l->unusual);
  Py_VISIT(l->recorded);
  Py_VISIT(l->max_threads);
  return 0;
}

static int launcher_clear(Launcher *l) {
  Py_CLEAR(l->slow);
  Py_CLEAR(l->on_error);
  Py_CLEAR(l->result_type);
  Py_CLEAR(l->unusual);
  Py_CLEAR(l->recorded);
  Py_CLEAR(l->max_threads);
  forget(l);
  return 0;
}

static void launcher_dealloc(Launcher *l) {
  PyTypeObject *type = Py_TYPE(l);
  PyObject_GC_UnTrack(l);
  launcher_clear(l);
  Py_CLEAR(l->name);
  Py_CLEAR(l->params);
  Py_CLEAR(l->returns);
  Py_CLEAR(l->generics);
  Py_CLEAR(l->defaults);
  ((void (*)(void *))PyType_GetSlot(type, Py_tp_free))(l);
  Py_DecRef((PyObject *)type);
}

/* Operands given from Python: in[] and out[] borrowed, *given set. */
static int operands_of(const Launcher *l, PyObject *call_args, Entry **entry, PyObject **in, PyObject **out,
                       int *given, PyObject **last, PyObject **rule) {
  PyObject *e, *args, *outs = Py_None;
  if (!PyArg_ParseTuple(call_args, rule ? "OO|OOO" : "OO|OO", &e, &args, &outs, last, rule)) return -1;
  if (Py_TYPE(e) != entry_type) {
    PyErr_SetString(PyExc_TypeError, "expected an Entry");
    return -1;
  }
  *entry = (Entry *)e;
  *given = outs != Py_None;
  Py_ssize_t n_in = tuple_length(args), n_out = *given ? tuple_length(outs) : l->n_returns;
  if (n_in < 0 || n_out < 0) return -1;
  if (n_in != l->n_params || n_out != l->n_returns || (*entry)->n_params != n_in ||
      (*entry)->n_returns != n_out) {
    PyErr_SetString(PyExc_ValueError, "the numbers of operands of launcher, entry and call differ");
    return -1;
  }
  for (int i = 0; i < n_in; i++) in[i] = PyTuple_GetItem(args, i);
  for (int r = 0; *given && r < n_out; r++) out[r] = PyTuple_GetItem(outs, r);
  return 0;
}

/* Check operands against an entry. Its own arrays are NumPy's; a lender's are checked by their key's words. */
static int check_fit(const Launcher *l, const Entry *e, PyObject *const *in, PyObject *const *out, char **data) {
  Mood mood = {0, 0, 0, 0, 1};
  for (int i = 0; i < l->n_params + (out ? l->n_returns : 0); i++) {
    PyObject *x = i < l->n_params ? in[i] : out[i - l->n_params];
    const Operand *o = &e->operand[i];
    data[i] = NULL;
    if (o->pass != BY_ADDRESS) { /* where the number lies, if a tensor of ours has it */
      if (tensor_lender && lender_of(x) == tensor_lender) data[i] = ((TensorHead *)x)->data;
      continue;
    }
    int lender = Py_TYPE(x) == numpy.array_type ? 0 : lender_of(x);
    View v;
    if (lender ? !view_of(lender, x, &mood, &v) || !fits_view(o, &v) : !fits(o, x)) {
      if (PyErr_Occurred()) return -1;
      PyErr_Format(PyExc_ValueError,
                   "operand %d is not a plain, aligned array of the entry's dtype, shape and strides", i);
      return -1;
    }
    data[i] = lender ? v.data : ((Array *)x)->data;
  }
  return 0;
}

static PyObject *launcher_install(Launcher *l, PyObject *call_args) {
  Entry *e;
  PyObject *in[MAX_OPERANDS], *out[MAX_OPERANDS], *values[MAX_GENERICS];
  tc_i64 key[KEY_WORDS], *w;
  Places at;
  PyObject *generics = Py_None, *rule = Py_None;
  int given;
  if (operands_of(l, call_args, &e, in, out, &given, &generics, &rule) ||
      check_fit(l, e, in, given ? out : NULL, at.data))
    return NULL;
  Py_ssize_t n = generics == Py_None ? 0 : tuple_length(generics);
  if (n < 0) return NULL;
  if (n != 0 && (!l->generics || n != PyTuple_Size(l->generics))) {
    PyErr_SetString(PyExc_ValueError, "the numbers of generics of launcher and call differ");
    return NULL;
  }
  for (Py_ssize_t g = 0; g < n; g++) {
    PyObject *value = PyTuple_GetItem(generics, g);
    if (g < MAX_GENERICS)
      values[g] = value;
    else if (value != Py_None) /* of which no key tells */
      return Py_NewRef(Py_None);
  }
  if (take_bounds(l, e) || !(w = key_generics(l, n ? values : NULL, given, key))) return Py_NewRef(Py_None);
  Mood mood = {0, 0, 0, 0, 1};
  size_t words = key_of(l, in, given ? out : NULL, key, w, &at, &mood);
  if (!words) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
  tc_i64 *kept = malloc(words * sizeof *kept);
  if (!kept) return PyErr_NoMemory();
  memcpy(kept, key, words * sizeof *kept);
  Row row = {mix_of(key, words), kept, words, (Entry *)Py_NewRef(e), n ? Py_NewRef(generics) : NULL, -1};
  if (rule != Py_None && keep_kind(l, key, (size_t)(w - key), words, e, row.generics, rule)) {
    free_row(row);
    return NULL;
  }
  return keep_row(l, row) ? NULL : Py_NewRef(Py_None);
}

static PyObject *launcher_run(Launcher *l, PyObject *call_args) {
  Entry *e;
  PyObject *in[MAX_OPERANDS], *out[MAX_OPERANDS];
  Places at = {.maker = 0, .has_run = 0};
  PyObject *example = Py_None;
  int given;
  if (operands_of(l, call_args, &e, in, out, &given, &example, NULL) ||
      check_fit(l, e, in, given ? out : NULL, at.data))
    return NULL;
  at.maker = lender_of(example);
  if (at.maker && at.maker != tensor_lender && lenders[at.maker - 1].model == Py_None) at.maker = 0;
  PyObject *result = run_entry(l, e, in, given ? out : NULL, &at);
  if (!result && !PyErr_Occurred())
    PyErr_SetString(
        PyExc_ValueError,
        "an output is read-only or overlaps another operand, or a number does not fit its parameter");
  return result;
}

static PyObject *launcher_clear_table(Launcher *l, PyObject *unused) {
  (void)unused;
  forget(l);
  return Py_NewRef(Py_None);
}

/* From Python 3.12 on a Python subclass is called as fast as its base. 3.11 does all for it but set this
   flag; where the type keeps it is checked against the official answer. */
static PyObject *launcher_init_subclass(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)args, (void)kwargs;
  unsigned long *flags = (unsigned long *)((void **)type + 21);
  if (Py_Version >> 16 == 0x030b && *flags == PyType_GetFlags(type) &&
      PyType_GetSlot(type, Py_tp_call) == (void *)PyVectorcall_Call)
    *flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  return Py_NewRef(Py_None);
}

static PyObject *launcher_repr(Launcher *l) {
  return PyUnicode_FromFormat("<Launcher %S>", l->name ? l->name : Py_None);
}

static PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, call), READONLY, NULL},
    {"name", T_OBJECT, offsetof(Launcher, name), READONLY, NULL},
    {"calls", T_PYSSIZET, offsetof(Launcher, calls), READONLY, NULL},
    {"params", T_OBJECT, offsetof(Launcher, params), READONLY, NULL},
    {"returns", T_OBJECT, offsetof(Launcher, returns), READONLY, NULL},
    {"unusual", T_OBJECT, offsetof(Launcher, unusual), 0, NULL},
    {"recorded", T_OBJECT, offsetof(Launcher, recorded), 0, NULL},
    {"max_threads", T_OBJECT, offsetof(Launcher, max_threads), 0, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyMethodDef launcher_methods[] = {
    {"install", (PyCFunction)(void *)launcher_install, METH_VARARGS, NULL},
    {"run", (PyCFunction)(void *)launcher_run, METH_VARARGS, NULL},
    {"clear", (PyCFunction)(void *)launcher_clear_table, METH_NOARGS, NULL},
    {"__init_subclass__", (PyCFunction)(void *)launcher_init_subclass,
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot launcher_slots[] = {{Py_tp_new, launcher_new},         {Py_tp_init, launcher_init},
                                       {Py_tp_dealloc, launcher_dealloc}, {Py_tp_traverse, launcher_traverse},
                                       {Py_tp_clear, launcher_clear},     {Py_tp_call, PyVectorcall_Call},
                                       {Py_tp_members, launcher_members}, {Py_tp_methods, launcher_methods},
                                       {Py_tp_repr, launcher_repr},       {0, NULL}};
static PyType_Spec launcher_spec = {
    "tcdsl.codegen.runtime._core.Launcher", sizeof(Launcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    launcher_slots};
