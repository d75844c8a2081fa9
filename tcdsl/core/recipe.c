/* Recipe(vjp, taken, to, passed=(), narrow=None, takes_none=False, standing=0, large=None): made by Python, once a form. */

static int read_bytes(PyObject *tuple, int most, int low, int high, unsigned char *to) {
  Py_ssize_t n = tuple_length(tuple);
  if (n < 0) return -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    long long v = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (v == -1 && PyErr_Occurred()) return -1;
    if (i == most || v < low || v > high) {
      PyErr_SetString(PyExc_ValueError, "a recipe has too many values, or one that is out of range");
      return -1;
    }
    to[i] = (unsigned char)v;
  }
  return (int)n;
}

static PyObject *recipe_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"vjp", "taken", "to", "passed", "narrow", "takes_none", "standing", "large", NULL};
  PyObject *vjp, *taken, *to, *passed = NULL, *narrow = Py_None, *large = Py_None;
  int takes_none = 0;
  unsigned long long standing = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOpKO", names, &vjp, &taken, &to, &passed, &narrow, &takes_none,
                                   &standing, &large))
    return NULL;
  Recipe *r = (Recipe *)PyType_GenericAlloc(type, 0);
  if (!r) return NULL;
  r->vjp = vjp == Py_None ? NULL : Py_NewRef(vjp);
  r->narrow = narrow == Py_None ? NULL : Py_NewRef(narrow);
  r->large = large == Py_None ? NULL : Py_NewRef(large);
  r->takes_none = takes_none;
  r->standing = standing;
  r->n_taken = read_bytes(taken, MOST_TAKEN, 0, 255, r->taken);
  r->n_to = read_bytes(to, MOST_INPUTS, -1, MOST_INPUTS - 1, (unsigned char *)r->to);
  r->n_passed = passed ? read_bytes(passed, MOST_INPUTS, 0, MOST_INPUTS - 1, (unsigned char *)r->passed) : 0;
  if (r->n_taken < 0 || r->n_to < 0 || r->n_passed < 0) {
    Py_DecRef((PyObject *)r);
    return NULL;
  }
  for (int i = 0; i < r->n_taken; i++) {
    int is_known = r->taken[i] >= TAKE_GRAD;
    for (int k = 0; !is_known && k < r->n_kept; k++) is_known = r->kept[k] == r->taken[i];
    if (!is_known) r->kept[r->n_kept++] = r->taken[i];
  }
  return (PyObject *)r;
}

static int recipe_traverse(Recipe *r, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(r));
  Py_VISIT(r->vjp);
  Py_VISIT(r->narrow);
  Py_VISIT(r->large);
  return 0;
}

static int recipe_clear(Recipe *r) {
  Py_CLEAR(r->vjp);
  Py_CLEAR(r->narrow);
  Py_CLEAR(r->large);
  Py_CLEAR(r->name);
  return 0;
}

static void recipe_dealloc(Recipe *r) {
  PyTypeObject *type = Py_TYPE(r);
  PyObject_GC_UnTrack(r);
  recipe_clear(r);
  PyObject_GC_Del(r);
  Py_DecRef((PyObject *)type);
}

/* recipe.named(name): the same, of nodes that have this name. */
static PyObject *recipe_named(Recipe *r, PyObject *name) {
  Recipe *made = (Recipe *)PyType_GenericAlloc(recipe_type, 0);
  if (!made) return NULL;
  PyObject head = made->ob_base;
  *made = *r;
  made->ob_base = head;
  if (r->vjp) Py_NewRef(r->vjp);
  if (r->narrow) Py_NewRef(r->narrow);
  if (r->large) Py_NewRef(r->large);
  made->name = Py_NewRef(name);
  return (PyObject *)made;
}

static PyMethodDef recipe_methods[] = {{"named", FAST(recipe_named), METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot recipe_slots[] = {{Py_tp_new, recipe_new},
                                     {Py_tp_methods, recipe_methods},
                                     {Py_tp_dealloc, recipe_dealloc},
                                     {Py_tp_traverse, recipe_traverse},
                                     {Py_tp_clear, recipe_clear},
                                     {0, NULL}};
static PyType_Spec recipe_spec = {"tcdsl.core._core.Recipe", sizeof(Recipe), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, recipe_slots};
