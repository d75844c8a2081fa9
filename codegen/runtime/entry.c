/* Entry: an executable with the sizes, strides and plan it runs with, for operands of one exact form.
 *
 * A launcher keeps thousands of entries, so one lies in a single block, and of its plan only what is used.
 */

typedef struct {
  PyObject ob_base;
  const tc_executable *exe;
  PyObject *keep, *note; /* note: what the library of tensors keeps with it, or NULL */
  int n_params, n_returns, n_bounds;
  size_t block_bytes;
  Operand *operand;           /* parameters, then returns; the block begins with them, and holds all arrays but param */
  unsigned char *inplace;     /* [return * n_params + parameter]: may be the very same view */
  tc_i64 *sizes, *strides;    /* strides in elements, of all operands passed by address, as phases see them */
  tc_scalar *planned_scalars; /* the values that plan saw: of scalars that stand in bounds, else 0 */
  int *bounds;         /* numbers of the parameters, ascending, whose values sizes or ranges depend on */
  Py_ssize_t *dims;    /* where the operands' dims and strides lie */
  int max_threads;     /* 0: as many as calls may use */
  int planned_threads; /* 0: no plan yet */
  int modelled;        /* the lender whose arrays models are, or 0: there are none yet */
  PyObject **model;    /* per return, an array like fresh outputs, or None: our memory */
  int parallel;        /* whether any phase pays for threads */
  double total_ns;     /* of all phases, serial */
  size_t shared_bytes, slot_bytes, work_bytes; /* workspace: shared, then one slot a thread */
  tc_i64 thread_bytes, all_bytes, *tasks, *param; /* of its plan, as is cost_ns; all_bytes: its shared_bytes */
  double *cost_ns;
  int n_planned; /* params up to the last that is not 0 */
} Entry;

/* The plan of one entry as phases read it: that of the latest call, so that calls of one form copy nothing. The
 * GIL guards it; a call that gives the GIL away takes a copy along. */
static struct {
  const Entry *of;
  int n_params; /* of plan.param, those that may be other than 0 */
  tc_plan plan;
} spread;

static PyTypeObject *entry_type;
static PyObject *internal_error;

static void entry_dealloc(Entry *e) {
  PyTypeObject *type = Py_TYPE(e);
  for (int i = 0; i < e->n_params + e->n_returns; i++) Py_DecRef((PyObject *)e->operand[i].descr);
  for (int r = 0; e->modelled && r < e->n_returns; r++) Py_DecRef(e->model[r]);
  free(e->param);
  if (spread.of == e) spread.of = NULL;
  free(e->operand);
  Py_DecRef(e->keep);
  Py_DecRef(e->note);
  ((void (*)(void *))PyType_GetSlot(type, Py_tp_free))(e);
  Py_DecRef((PyObject *)type);
}

static int read_inplace(Entry *e, PyObject *pairs) {
  for (Py_ssize_t i = 0, n = pairs ? tuple_length(pairs) : 0; i < n; i++) {
    PyObject *pair = PyTuple_GetItem(pairs, i);
    int r, p;
    if (tuple_length(pair) < 0 || !PyArg_ParseTuple(pair, "ii", &r, &p)) return -1;
    if (r < 0 || r >= e->n_returns || p < 0 || p >= e->n_params) {
      PyErr_SetString(PyExc_ValueError, "inplace is made of (return, parameter) numbers");
      return -1;
    }
    e->inplace[r * e->n_params + p] = (unsigned char)same_view(&e->operand[e->n_params + r], &e->operand[p]);
  }
  return PyErr_Occurred() ? -1 : 0;
}

static int read_bounds(Entry *e, PyObject *bounds) {
  Py_ssize_t n = bounds ? tuple_length(bounds) : 0;
  if (n < 0 || n > e->n_params) n = -1;
  for (Py_ssize_t b = 0, last = -1; b < n; b++) {
    long long p = PyLong_AsLongLong(PyTuple_GetItem(bounds, b));
    if (p <= last || p >= e->n_params ||
        (e->operand[p].pass != AS_SIGNED && e->operand[p].pass != AS_UNSIGNED))
      n = -1;
    else
      e->bounds[b] = (int)(last = p);
  }
  e->n_bounds = n < 0 ? 0 : (int)n;
  if (n < 0 && !PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError,
                    "bounds are the numbers of integer parameters passed by value, ascending");
  return n < 0 ? -1 : 0;
}

/* One block for all arrays, of entries of the same size beside what calls read together. */
static int take_block(Entry *e, size_t n_params, size_t n_returns, size_t n_sizes, size_t n_strides, size_t room) {
  size_t n = n_params + n_returns, phases = (size_t)e->exe->phases;
  size_t words = n * sizeof *e->operand / sizeof(tc_i64) + 2 * phases + n_sizes + n_strides + 2 * room + n_params +
                 n_returns;
  e->block_bytes = words * sizeof(tc_i64) + n_params * sizeof *e->bounds + n_params * n_returns;
  if (!(e->operand = calloc(1, e->block_bytes))) {
    PyErr_NoMemory();
    return -1;
  }
  e->tasks = (tc_i64 *)(e->operand + n);
  e->cost_ns = (double *)(e->tasks + phases);
  e->sizes = (tc_i64 *)(e->cost_ns + phases);
  e->strides = e->sizes + n_sizes;
  e->dims = (Py_ssize_t *)(e->strides + n_strides);
  e->planned_scalars = (tc_scalar *)(e->dims + 2 * room);
  e->model = (PyObject **)(e->planned_scalars + n_params);
  e->bounds = (int *)(e->model + n_returns);
  e->inplace = (unsigned char *)(e->bounds + n_params);
  e->n_params = (int)n_params;
  e->n_returns = (int)n_returns;
  return 0;
}

static int fill_entry(Entry *e, PyObject *sizes, PyObject *params, PyObject *returns, PyObject *inplace,
                      PyObject *bounds, PyObject *strides) {
  Py_ssize_t n_sizes = tuple_length(sizes), n_params = tuple_length(params),
             n_returns = tuple_length(returns), n_strides = strides == Py_None ? 0 : tuple_length(strides);
  if (n_sizes < 0 || n_params < 0 || n_returns < 0 || n_strides < 0) return -1;
  Py_ssize_t n = n_params + n_returns, room = 0, used = 0;
  if (n > MAX_OPERANDS) {
    PyErr_Format(PyExc_ValueError, "a kernel has at most %d parameters and returns", MAX_OPERANDS);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *spec = i < n_params ? PyTuple_GetItem(params, i) : PyTuple_GetItem(returns, i - n_params);
    if (i < n_params && is_descr(spec)) continue;
    if (tuple_length(spec) != 3) {
      PyErr_SetString(PyExc_TypeError, "an operand is a dtype or (dtype, shape, strides)");
      return -1;
    }
    Py_ssize_t nd = tuple_length(PyTuple_GetItem(spec, 1));
    if (nd < 0) return -1;
    room += nd;
  }
  if (strides == Py_None) n_strides = room;
  if (take_block(e, (size_t)n_params, (size_t)n_returns, (size_t)n_sizes, (size_t)n_strides, (size_t)room)) return -1;
  tc_i64 *elements = strides == Py_None ? e->strides : NULL;
  for (Py_ssize_t i = 0; i < n_sizes; i++) {
    e->sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
    if (e->sizes[i] == -1 && PyErr_Occurred()) return -1;
  }
  for (Py_ssize_t i = 0; !elements && i < n_strides; i++) {
    e->strides[i] = PyLong_AsLongLong(PyTuple_GetItem(strides, i));
    if (e->strides[i] == -1 && PyErr_Occurred()) return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *spec = i < n_params ? PyTuple_GetItem(params, i) : PyTuple_GetItem(returns, i - n_params);
    if (read_operand(&e->operand[i], spec, i < n_params && is_descr(spec), e->dims, elements, &used)) return -1;
  }
  for (Py_ssize_t r = n_params; r < n; r++) {
    const Operand *out = &e->operand[r];
    int is_empty = 0, repeats = 0;
    for (int d = 0; d < out->nd; d++) {
      is_empty |= out->dims[d] == 0;
      repeats |= out->dims[d] > 1 && out->strides[d] == 0;
    }
    if (repeats && !is_empty) { /* an empty array may have any strides, NumPy's often have 0 */
      PyErr_SetString(PyExc_ValueError, "an output has stride 0");
      return -1;
    }
  }
  return read_inplace(e, inplace) || read_bounds(e, bounds) ? -1 : 0;
}

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"executable", "sizes", "params", "returns", "inplace", "keep", "bounds", "max_threads",
                          "strides", NULL};
  PyObject *address, *sizes, *params, *returns, *inplace = NULL, *keep = Py_None, *bounds = NULL, *strides = Py_None;
  int max_threads = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO|OOOiO", names, &address, &sizes, &params, &returns,
                                   &inplace, &keep, &bounds, &max_threads, &strides))
    return NULL;
  if (max_threads < 0) {
    PyErr_SetString(PyExc_ValueError, "max_threads is negative");
    return NULL;
  }
  const tc_executable *exe = PyLong_AsVoidPtr(address);
  if (!exe) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the address of an executable is 0");
    return NULL;
  }
  if (exe->abi != TC_ABI || exe->phases < 0 || exe->phases > TC_MAX_PHASES) {
    PyErr_Format(internal_error, "an executable of ABI %d, this runtime has %d", (int)exe->abi, TC_ABI);
    return NULL;
  }
  for (tc_i64 i = 0; i < exe->imports; i++)
    if (!*(void *const *)exe->import[i].slot) {
      PyErr_Format(internal_error, "an executable that was not given its function '%s'", exe->import[i].name);
      return NULL;
    }
  Entry *e = (Entry *)PyType_GenericAlloc(type, 0);
  if (!e) return NULL;
  e->exe = exe;
  e->keep = Py_NewRef(keep);
  e->max_threads = max_threads;
  if (fill_entry(e, sizes, params, returns, inplace, bounds, strides)) {
    Py_DecRef(&e->ob_base);
    return NULL;
  }
  return &e->ob_base;
}

/* Per parameter and return its dtype and shape, None where it is passed by value. */
static PyObject *entry_operands(PyObject *self, void *closure) {
  (void)closure;
  const Entry *e = (const Entry *)self;
  Py_ssize_t n = e->n_params + e->n_returns;
  PyObject *all = PyTuple_New(n);
  for (Py_ssize_t i = 0; all && i < n; i++) {
    const Operand *o = &e->operand[i];
    PyObject *shape = o->pass == BY_ADDRESS ? PyTuple_New(o->nd) : Py_NewRef(Py_None);
    for (int d = 0; shape && o->pass == BY_ADDRESS && d < o->nd; d++)
      if (PyTuple_SetItem(shape, d, PyLong_FromLongLong(o->dims[d]))) Py_CLEAR(shape);
    PyObject *form = shape ? Py_BuildValue("OO", o->descr, shape) : NULL;
    Py_DecRef(shape);
    if (!form || PyTuple_SetItem(all, i, form)) Py_CLEAR(all);
  }
  return all;
}

static PyObject *entry_keep(PyObject *self, void *closure) {
  (void)closure;
  return Py_NewRef(((Entry *)self)->keep);
}

static PyGetSetDef entry_getset[] = {{"operands", entry_operands, NULL, NULL, NULL},
                                     {"keep", entry_keep, NULL, NULL, NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot entry_slots[] = {
    {Py_tp_new, entry_new}, {Py_tp_dealloc, entry_dealloc}, {Py_tp_getset, entry_getset}, {0, NULL}};
static PyType_Spec entry_spec = {"tcdsl.codegen.runtime._core.Entry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT,
                                 entry_slots};
