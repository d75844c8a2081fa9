/* Entry: an executable with the sizes, strides and plan it runs with, for operands of one exact form.
 *
 * A launcher keeps thousands of entries, so one lies in a single block, and of its plan only what is used.
 */

enum { MAX_OPERANDS = 512, MAX_BOUNDS = 64 };
/* How a parameter is passed: by address, or, of rank 0, by value as this kind. */
enum { BY_ADDRESS, AS_BOOL, AS_SIGNED, AS_UNSIGNED, AS_BFLOAT16, AS_HALF, AS_FLOAT, AS_DOUBLE };

typedef struct {
  int pass, nd, type_num, item_bytes, c_order;
  Py_ssize_t *dims, *strides; /* strides in bytes */
  Py_ssize_t low, high; /* bytes from element 0,..,0 to the first and past the last byte; equal: empty */
  Descr *descr;
} Operand;

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

/* NumPy's letter for the kind of a plain type. */
static char kind_of(int type_num) {
  if (type_num == numpy.bfloat16) return 'V';
  if (type_num == NUM_BOOL) return 'b';
  return type_num >= NUM_FLOAT ? 'f' : type_num % 2 ? 'i' : 'u';
}

static DLDataType type_of(const Descr *d, int item_bytes) {
  int code = d->type_num == numpy.bfloat16 ? DL_BFLOAT
             : d->kind == 'b'              ? DL_BOOL
             : d->kind == 'i'              ? DL_INT
             : d->kind == 'u'              ? DL_UINT
                                           : DL_FLOAT;
  return (DLDataType){(tc_u8)code, (tc_u8)(8 * item_bytes), 1};
}

static int pass_of(const Descr *d) {
  if (d->type_num == numpy.bfloat16) return AS_BFLOAT16;
  switch (d->kind) {
    case 'b':
      return AS_BOOL;
    case 'i':
      return AS_SIGNED;
    case 'u':
      return AS_UNSIGNED;
    default:
      return d->type_num == NUM_HALF ? AS_HALF : d->type_num == NUM_FLOAT ? AS_FLOAT : AS_DOUBLE;
  }
}

/* Read a tuple of n integers. */
static int read_integers(PyObject *tuple, Py_ssize_t n, Py_ssize_t *to) {
  if (tuple_length(tuple) != n) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "shape and strides differ in length");
    return -1;
  }
  for (Py_ssize_t d = 0; d < n; d++) {
    to[d] = (Py_ssize_t)PyLong_AsLongLong(PyTuple_GetItem(tuple, d));
    if (to[d] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

/* Find the bytes an operand spans; -1 if they cannot be counted. */
static int measure(Operand *o) {
  Py_ssize_t low = 0, high = o->item_bytes, span;
  for (int d = 0; d < o->nd; d++) {
    if (o->dims[d] == 0) {
      o->low = o->high = 0;
      return 0;
    }
    if (__builtin_mul_overflow(o->dims[d] - 1, o->strides[d], &span)) return -1;
    if (__builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high)) return -1;
  }
  o->low = low;
  o->high = high;
  return __builtin_sub_overflow(high, low, &span) ? -1 : 0;
}

/* spec: a dtype (a rank-0 parameter by value), or (dtype, shape, strides in elements or None: C order). elements:
 * where the strides that phases see go, or NULL: they are others. */
static int read_operand(Entry *e, Operand *o, PyObject *spec, int by_value, tc_i64 *elements, Py_ssize_t *used) {
  PyObject *descr = spec, *shape = NULL, *strides = Py_None;
  if (!by_value && !PyArg_ParseTuple(spec, "OOO", &descr, &shape, &strides)) return -1;
  if (!is_descr(descr) || !is_plain((Descr *)descr)) {
    PyErr_SetString(PyExc_TypeError, "an operand's type is a plain NumPy dtype in native byte order");
    return -1;
  }
  o->descr = (Descr *)Py_NewRef(descr);
  o->type_num = o->descr->type_num;
  o->item_bytes = item_bytes_of(o->type_num);
  if (by_value) {
    o->pass = pass_of(o->descr);
    return 0;
  }
  Py_ssize_t nd = tuple_length(shape);
  if (nd < 0 || nd > MAX_DIMS) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an array has at most 64 dimensions");
    return -1;
  }
  o->nd = (int)nd;
  o->dims = e->dims + 2 * *used;
  o->strides = o->dims + nd;
  if (read_integers(shape, nd, o->dims)) return -1;
  tc_i64 step = 1;
  int too_large = 0;
  if (elements) elements += *used;
  *used += nd;
  o->c_order = strides == Py_None;
  if (!o->c_order && read_integers(strides, nd, o->strides)) return -1;
  for (Py_ssize_t d = nd - 1; d >= 0; d--) {
    if (o->dims[d] < 0) {
      PyErr_SetString(PyExc_ValueError, "a negative extent");
      return -1;
    }
    if (o->c_order) {
      o->strides[d] = (Py_ssize_t)step;
      too_large |= __builtin_mul_overflow(step, o->dims[d] ? o->dims[d] : 1, &step);
    }
    if (elements) elements[d] = o->strides[d];
    too_large |= __builtin_mul_overflow(o->strides[d], o->item_bytes, &o->strides[d]);
  }
  if (too_large || measure(o)) {
    PyErr_SetString(PyExc_ValueError, "an array is too large to be addressed");
    return -1;
  }
  return 0;
}

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

static int same_view(const Operand *a, const Operand *b) {
  if (a->nd != b->nd || a->item_bytes != b->item_bytes || a->pass != b->pass) return 0;
  for (int d = 0; d < a->nd; d++)
    if (a->dims[d] != b->dims[d] || (a->dims[d] > 1 && a->strides[d] != b->strides[d])) return 0;
  return 1;
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
    if (read_operand(e, &e->operand[i], spec, i < n_params && is_descr(spec), elements, &used)) return -1;
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

/* How many threads a call may use, where its caller allows so many (0: all). */
static int threads_of(const Entry *e, int allowed) {
  int threads = pool_threads();
  if (allowed && allowed < threads) threads = allowed;
  return e->max_threads && e->max_threads < threads ? e->max_threads : threads;
}

/* Ask the executable for its plan. */
static int plan_entry(Entry *e, int threads) {
  tc_error error = {0, 0, 0, 0, 0};
  tc_i64 turn[TC_MAX_LOOPS] = {0};
  tc_args args = {NULL, e->sizes, e->strides, e->planned_scalars, NULL, NULL, &error, threads, turn};
  tc_plan *plan = &spread.plan;
  size_t phases = (size_t)e->exe->phases;
  e->planned_threads = 0;
  spread.of = NULL;
  spread.n_params = TC_MAX_PARAMS;
  memset(plan, 0, sizeof *plan);
  int rc = e->exe->plan(&args, plan), n = TC_MAX_PARAMS;
  if (rc || plan->thread_bytes < 0 || plan->shared_bytes < 0) {
    PyErr_Format(internal_error, "the plan of an executable returned %d, and %lld and %lld bytes", rc,
                 plan->thread_bytes, plan->shared_bytes);
    return -1;
  }
  if (plan->thread_bytes >> 44 || plan->shared_bytes >> 44) {
    PyErr_NoMemory();
    return -1;
  }
  while (n && !plan->param[n - 1]) n--;
  if (!e->param || n != e->n_planned) {
    tc_i64 *param = realloc(e->param, (size_t)(n ? n : 1) * sizeof *param);
    if (!param) {
      PyErr_NoMemory();
      return -1;
    }
    e->param = param;
    e->n_planned = n;
  }
  memcpy(e->tasks, plan->tasks, phases * sizeof *e->tasks);
  memcpy(e->cost_ns, plan->cost_ns, phases * sizeof *e->cost_ns);
  memcpy(e->param, plan->param, (size_t)n * sizeof *e->param);
  e->parallel = 0;
  e->total_ns = 0;
  for (size_t p = 0; p < phases; p++) {
    e->total_ns += e->cost_ns[p];
    e->parallel |= pool_pays(threads, e->tasks[p], e->cost_ns[p]);
  }
  e->thread_bytes = plan->thread_bytes;
  e->all_bytes = plan->shared_bytes;
  e->shared_bytes =
      ((size_t)plan->shared_bytes + 127) & ~(size_t)127; /* two lines each: neighbours are fetched in pairs */
  e->slot_bytes = ((size_t)plan->thread_bytes + 127) & ~(size_t)127;
  e->work_bytes = e->shared_bytes + e->slot_bytes * (size_t)(e->parallel ? threads : 1);
  e->planned_threads = threads;
  spread.of = e;
  spread.n_params = n;
  return 0;
}

/* Write the plan of an entry where phases read it, of which the first so many params may be other than 0. */
static void write_plan(const Entry *e, tc_plan *to, int n_params) {
  size_t phases = (size_t)e->exe->phases, n = (size_t)e->n_planned;
  memcpy(to->tasks, e->tasks, phases * sizeof *to->tasks);
  memcpy(to->cost_ns, e->cost_ns, phases * sizeof *to->cost_ns);
  memcpy(to->param, e->param, n * sizeof *to->param);
  if (n_params > e->n_planned) memset(to->param + n, 0, ((size_t)n_params - n) * sizeof *to->param);
  to->thread_bytes = e->thread_bytes;
  to->shared_bytes = e->all_bytes;
}

/* The plan of an entry, valid until the GIL is given away. */
static inline const tc_plan *plan_of(const Entry *e) {
  if (spread.of != e) {
    write_plan(e, &spread.plan, spread.n_params);
    spread.n_params = e->n_planned;
    spread.of = e;
  }
  return &spread.plan;
}

/* Whether an array has the form the entry was made for; the fast path knows by its key. */
static int fits(const Operand *o, PyObject *x) {
  if (Py_TYPE(x) != numpy.array_type) return 0;
  const Array *a = (Array *)x;
  if (!(a->flags & ARRAY_ALIGNED) || !is_plain(a->descr) || a->nd != o->nd ||
      a->descr->kind != o->descr->kind || item_bytes_of(a->descr->type_num) != o->item_bytes)
    return 0;
  for (int d = 0; d < a->nd; d++)
    if (a->dims[d] != o->dims[d] || (a->dims[d] > 1 && o->low != o->high && a->strides[d] != o->strides[d]))
      return 0;
  return 1;
}

static int fits_view(const Operand *o, const View *v) {
  if (v->nd != o->nd || v->item_bytes != o->item_bytes || kind_of(v->type_num) != o->descr->kind) return 0;
  for (int d = 0; d < v->nd; d++)
    if (v->dims[d] != o->dims[d] || (v->dims[d] > 1 && o->low != o->high && v->strides[d] != o->strides[d]))
      return 0;
  return 1;
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
