/* View: a callable that gives a tensor over the memory of another, in a layout made of that one's. Nothing is computed.
 *
 * What a view is called, who gives its gradient, and what is done with arguments that are not plain, comes from Python.
 */

typedef struct {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject *name, *slow, *dict;
  Recipe *recipe;
  Rule rule;
  int several; /* whether calls of it are parts of one call that gives several views */
} View;

static PyTypeObject *view_type;

/* A view of a tensor, recorded where a gradient may be asked for; in: that tensor and what its recipe takes. */
static PyObject *view_made(PyObject *of, const Layout *l, PyObject *name, Recipe *recipe, PyObject *vjp,
                           PyObject *const *in, int n_in) {
  Tensor *source = (Tensor *)of;
  int yes = is_tracked(source);
  if (yes < 0) return NULL;
  Tensor *t = tensor_view(tensor_type, source, l->nd, l->shape, l->stride, l->offset);
  if (!t) return NULL;
  t->base = Py_NewRef(source->base ? source->base : of);
  t->head.flags |= (source->head.flags & (VIEW_UNRECORDED | VIEW_OF_SEVERAL)) | (grad_on ? 0 : VIEW_UNRECORDED);
  PyObject *out = (PyObject *)t;
  if (yes && grad_on && record(name, recipe, vjp, 1, in, n_in, &out, 1, 1, NULL, 0)) Py_CLEAR(out);
  return out;
}

/* What a view is recorded as: a subscript, as PyTorch has it, as its last part that leaves a dimension not as it is;
 * one dimension that goes, under another name than all of extent 1. */
static PyObject *name_of_view(const View *v, const Layout *l, Py_ssize_t n_args) {
  enum { CLOSED_ONE = 4 };
  static const char *const said[] = {"AliasBackward0", NULL, "SelectBackward0", "UnsqueezeBackward0", "SqueezeBackward1"};
  static PyObject *names[5];
  int which = v->rule == subscripted ? l->last : v->rule == closed && n_args > 1 ? CLOSED_ONE : -1;
  if (which < 0 || !said[which]) return v->name;
  if (!names[which]) names[which] = PyUnicode_FromFormat("%s", said[which]);
  return names[which];
}

/* The view that plain arguments ask for; NULL without an error where they are not plain. */
static PyObject *view_laid(View *v, PyObject *const *args, Py_ssize_t n) {
  Layout l;
  if (n < 1 || !is_tensor(args[0]) || !v->rule((Tensor *)args[0], args + 1, n - 1, &l)) return NULL;
  if (v->rule == merged && l.nd == rank_of(&((Tensor *)args[0])->head)) return Py_NewRef(args[0]); /* nothing changes */
  int yes = grad_on ? is_tracked((Tensor *)args[0]) : 0;
  if (yes < 0) return NULL;
  if (!yes) return view_made(args[0], &l, v->name, v->recipe, NULL, args, 1);
  PyObject *in[] = {args[0], PyTuple_New(n - 1)}, *made = NULL;
  for (Py_ssize_t i = 1; in[1] && i < n; i++) PyTuple_SetItem(in[1], i - 1, Py_NewRef(args[i]));
  PyObject *name = in[1] ? name_of_view(v, &l, n) : NULL;
  if (name) made = view_made(args[0], &l, name, v->recipe, NULL, in, 2);
  Py_DecRef(in[1]);
  return made;
}

static PyObject *view_found(View *v, PyObject *const *args, Py_ssize_t n) {
  PyObject *made = view_laid(v, args, n);
  if (made && v->several) ((Tensor *)made)->head.flags |= VIEW_OF_SEVERAL;
  return made;
}

/* Say in the place of an error that the first operand is no tensor, where it is so; NULL. */
static PyObject *refused(PyObject *function, PyObject *const *args, size_t nargsf) {
  if (!PyVectorcall_NARGS(nargsf) || is_tensor(args[0]) || !py.refusal || !PyErr_ExceptionMatches(PyExc_AttributeError))
    return NULL;
  PyObject *type, *value, *trace, *both[] = {function, args[0]};
  PyErr_Fetch(&type, &value, &trace);
  PyObject *told = PyObject_Vectorcall(py.refusal, both, 2, NULL);
  if (!told || told == Py_None) {
    PyErr_Restore(type, value, trace); /* in the place of another */
  } else {
    PyErr_Format(PyExc_TypeError, "%U", told);
    Py_DecRef(type);
    Py_DecRef(value);
    Py_DecRef(trace);
  }
  Py_DecRef(told);
  return NULL;
}

static PyObject *view_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  View *v = (View *)self;
  PyObject *made = keywords ? NULL : view_found(v, args, PyVectorcall_NARGS(nargsf));
  if (made || PyErr_Occurred()) return made;
  made = PyObject_Vectorcall(v->slow, args, nargsf, keywords);
  return made ? made : refused(v->slow, args, nargsf);
}

/* plain(tensor, ...): the view, or None where the arguments are not plain. */
static PyObject *view_plain(View *v, PyObject *const *args, Py_ssize_t n) {
  PyObject *made = view_found(v, args, n);
  return made || PyErr_Occurred() ? made : Py_NewRef(Py_None);
}

static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"name", "rule", "recipe", "slow", "several", NULL};
  PyObject *name, *recipe, *slow;
  const char *rule;
  int several = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OsOO|i", names, &name, &rule, &recipe, &slow, &several)) return NULL;
  size_t r = 0, n_rules = sizeof rules / sizeof *rules;
  while (r < n_rules && strcmp(rules[r].name, rule)) r++;
  if (r == n_rules || Py_TYPE(recipe) != recipe_type) {
    PyErr_SetString(PyExc_ValueError, "View takes the name of a rule of layouts, and a Recipe");
    return NULL;
  }
  View *v = (View *)PyType_GenericAlloc(type, 0);
  if (!v) return NULL;
  v->call = view_call;
  v->name = Py_NewRef(name);
  v->slow = Py_NewRef(slow);
  v->recipe = (Recipe *)Py_NewRef(recipe);
  v->rule = rules[r].rule;
  v->several = several;
  return (PyObject *)v;
}

static int view_traverse(View *v, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(v));
  Py_VISIT(v->slow);
  Py_VISIT(v->recipe);
  Py_VISIT(v->dict);
  return 0;
}

static int view_clear(View *v) {
  Py_CLEAR(v->slow);
  Py_CLEAR(v->recipe);
  Py_CLEAR(v->dict);
  return 0;
}

static void view_dealloc(View *v) {
  PyTypeObject *type = Py_TYPE(v);
  PyObject_GC_UnTrack(v);
  view_clear(v);
  Py_DecRef(v->name);
  PyObject_GC_Del(v);
  Py_DecRef((PyObject *)type);
}

static PyMemberDef view_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(View, call), READONLY, NULL},
                                     {"__dictoffset__", T_PYSSIZET, offsetof(View, dict), READONLY, NULL},
                                     {NULL, 0, 0, 0, NULL}};
static PyGetSetDef view_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef view_methods[] = {{"plain", FAST(view_plain), METH_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot view_slots[] = {
    {Py_tp_new, view_new},          {Py_tp_dealloc, view_dealloc}, {Py_tp_traverse, view_traverse},
    {Py_tp_clear, view_clear},      {Py_tp_call, PyVectorcall_Call}, {Py_tp_members, view_members},
    {Py_tp_methods, view_methods},  {Py_tp_getset, view_getset},   {0, NULL}};
static PyType_Spec view_spec = {
    "tcdsl.core._core.View", sizeof(View), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, view_slots};
