/* Launcher, the callable: looks its operands up in a table of exact forms, allocates, runs; all else is slow's. */

enum { MAX_ROWS = 8192, MAX_TABLE_BYTES = 16 << 20, KEY_WORDS = 2048, MAX_GENERICS = 31, RELEASE_NS = 20000 };

typedef struct {
  tc_u64 mix;
  tc_i64 *key;
  size_t words;
  Entry *entry;
  PyObject *generics; /* a value for each generic, kept since words may be addresses of some; or NULL */
  int next; /* row of the same bucket, or -1 */
} Row;

typedef struct {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject *name, *params, *returns, *slow, *on_error, *result_type;
  PyObject *generics;    /* a tuple of names, interned as those of params are */
  PyObject *defaults;    /* of each parameter the number that it is where a call leaves it out, or None; or NULL */
  PyObject *unusual;     /* NULL, None, or a callable: while it gives true, every call is slow's */
  PyObject *recorded;    /* NULL, None, or a callable: slow's calls on arrays of which one is tracked */
  PyObject *max_threads; /* NULL, None, or a callable: how many threads a call may use */
  Py_ssize_t calls; /* runs so far, those of run() too */
  int n_params, n_returns, n_generics;
  int n_bounds, bounds[MAX_BOUNDS]; /* parameters, ascending, on whose values sizes of an entry depend */
  int rows, room, recent; /* room: of rows and of buckets, a power of two */
  size_t table_bytes;     /* of keys and entries */
  tc_u32 chance;
  Row *row;
  int *bucket; /* its first row, or -1 */
} Launcher;

static PyTypeObject *launcher_type;
static PyObject *word_out, *word_outputs;

/* What a key tells beside its words. */
typedef struct {
  char *data[MAX_OPERANDS]; /* where operands lie; NULL: no array */
  int maker;                /* the lender whose arrays fresh outputs are, or 0: NumPy */
  int has_run;              /* whether outputs may have been written */
} Places;

/* The value of a scalar that sizes depend on. */
static int bound_of(PyObject *o, const View *lent, tc_i64 *to) {
  if (lent) return integer_at(lent->type_num, lent->data, 8, 1, to);
  if (!integer_of(o, 8, 1, to)) return 0;
  PyErr_Clear();
  return -1;
}

/* Begin a key: whether outputs are given, which generics are, and the value of each of those. An integer is
 * its value. Anything else is the object itself: install keeps it, if it means the same for ever. NULL without
 * an error: not for the fast path. */
static tc_i64 *key_generics(const Launcher *l, PyObject *const *generics, int has_out, tc_i64 *key) {
  tc_i64 *w = key + 1;
  tc_u64 given = 0, objects = 0;
  for (int g = 0; generics && g < l->n_generics; g++) {
    PyObject *o = generics[g];
    if (!o || o == Py_None) continue;
    int source = source_of(o);
    given |= (tc_u64)1 << g;
    if (source == FROM_INT || source > FROM_NUMPY) {
      if (integer_of(o, 8, 1, w++)) {
        PyErr_Clear();
        return NULL;
      }
    } else {
      objects |= (tc_u64)1 << g;
      *w++ = (tc_i64)(size_t)o;
    }
  }
  key[0] = (tc_i64)(objects << (1 + MAX_GENERICS) | given << 1 | (tc_u64)(has_out != 0));
  return w;
}

/* The form of the operands as words, exact to the stride, behind those of generics at w; 0 words: not for the
 * fast path, or, with an error set, for none. Python code may run. */
static size_t key_of(const Launcher *l, PyObject *const *in, PyObject *const *out, tc_i64 *key, tc_i64 *w,
                     Places *at, Mood *mood) {
  tc_i64 *end = key + KEY_WORDS;
  int found = 0;
  at->maker = at->has_run = 0;
  for (int i = 0, b = 0; i < l->n_params + (out ? l->n_returns : 0); i++) {
    PyObject *o = i < l->n_params ? in[i] : out[i - l->n_params];
    const View *lent = NULL;
    View view;
    if (end - w < 2 + 2 * MAX_DIMS) return 0;
    if (is_array(o)) {
      const Array *a = (Array *)o;
      *w++ = (tc_i64)a->nd << 32 | (unsigned)a->descr->type_num;
      for (int d = 0; d < a->nd; d++) {
        w[d] = a->dims[d];
        w[a->nd + d] = a->strides[d];
      }
      w += 2 * a->nd;
      at->data[i] = a->data;
      if (!found && a->nd) at->maker = 0;
      found |= a->nd;
    } else if (is_tensor(o)) {
      const TensorHead *t = (TensorHead *)o;
      int nd = rank_of(t);
      if (!may_read(t, mood)) return 0;
      *w++ = t->form;
      for (int d = 0; d < 2 * nd; d++) w[d] = t->dims[d];
      w += 2 * nd;
      at->data[i] = t->data;
      if (!found && (nd || !at->maker) && i < l->n_params) at->maker = tensor_lender;
      found |= nd;
    } else if ((view.lender = lender_of(o))) {
      if (!view_of(view.lender, o, mood, &view)) return 0;
      lent = &view;
      *w++ = (tc_i64)view.lender << 48 | (tc_i64)view.nd << 32 | (unsigned)view.type_num;
      for (int d = 0; d < view.nd; d++) {
        w[d] = view.dims[d];
        w[view.nd + d] = view.lender == tensor_lender ? view.strides[d] / view.item_bytes : view.strides[d];
      }
      w += 2 * view.nd;
      at->data[i] = view.data;
      /* results are of the first array's kind, or, where all are numbers, of the first lender's */
      if (!found && (view.nd || !at->maker) && i < l->n_params) at->maker = view.lender;
      found |= view.nd;
    } else {
      int source = i < l->n_params ? source_of(o) : 0;
      if (!source) return 0;
      *w++ = (tc_i64)1 << 62 | source;
      at->data[i] = NULL;
    }
    if (b < l->n_bounds && i == l->bounds[b]) {
      if (!lent && is_tensor(o) && see_tensor((TensorHead *)o, &view)) lent = &view;
      if (bound_of(o, lent, w)) return 0;
      w++, b++;
    }
  }
  return (size_t)(w - key);
}

/* A sum that differs where forms differ, nearly always; the words decide. */
static tc_u64 mix_of(const tc_i64 *key, size_t words) {
  tc_u64 mix = words;
  for (size_t i = 0; i < words; i++) mix = mix * 0x9e3779b97f4a7c15u + (tc_u64)key[i];
  return mix ^ mix >> 32;
}

static inline int same_words(const tc_i64 *a, const tc_i64 *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

static inline int is_row(const Row *row, const tc_i64 *key, size_t words) {
  return row->words == words && same_words(row->key, key, words);
}

/* A prime keeps forms apart whose words differ in high bits only. */
static int *bucket_of(const Launcher *l, tc_u64 mix) {
  return &l->bucket[(mix * 0xd6e8feb86659fd93u >> 32) & (tc_u64)(l->room - 1)];
}

/* The row of these operands, or -1. The one of the latest call needs no sum. No Python code runs here. */
static int look_up(const Launcher *l, const tc_i64 *key, size_t words) {
  if (!l->rows) return -1;
  if (is_row(&l->row[l->recent], key, words)) return l->recent;
  tc_u64 mix = mix_of(key, words);
  for (int i = *bucket_of(l, mix); i >= 0; i = l->row[i].next)
    if (l->row[i].mix == mix && is_row(&l->row[i], key, words)) return i;
  return -1;
}

static void link_row(Launcher *l, int i) {
  int *first = bucket_of(l, l->row[i].mix);
  l->row[i].next = *first;
  *first = i;
}

static void unlink_row(Launcher *l, int i) {
  int *from = bucket_of(l, l->row[i].mix);
  while (*from != i) from = &l->row[*from].next;
  *from = l->row[i].next;
}

static size_t bytes_of(const Row *row) {
  return row->words * sizeof *row->key + sizeof *row->entry + row->entry->block_bytes;
}

/* Make room for one more row, while there may be more; not 0 with MemoryError. */
static int grow(Launcher *l) {
  if (l->rows < l->room || l->room == MAX_ROWS) return 0;
  int room = l->room ? 2 * l->room : 8;
  Row *row = realloc(l->row, (size_t)room * sizeof *row);
  if (row) l->row = row;
  int *bucket = row ? realloc(l->bucket, (size_t)room * sizeof *bucket) : NULL;
  if (!bucket) {
    PyErr_NoMemory();
    return -1;
  }
  l->bucket = bucket;
  l->room = room;
  for (int i = 0; i < room; i++) bucket[i] = -1;
  for (int i = 0; i < l->rows; i++) link_row(l, i);
  return 0;
}

/* May run Python code. */
static void free_row(Row row) {
  free(row.key);
  Py_DecRef(&row.entry->ob_base);
  Py_DecRef(row.generics);
}

/* Take a row out; the last one moves to its place. */
static Row take_out(Launcher *l, int i) {
  Row old = l->row[i];
  int last = l->rows - 1;
  unlink_row(l, i);
  if (i != last) {
    unlink_row(l, last);
    l->row[i] = l->row[last];
    link_row(l, i);
  }
  l->rows = last;
  l->recent = 0;
  l->table_bytes -= bytes_of(&old);
  return old;
}

/* Keep a row, in place of one of the same form. A full table gives up rows by chance: forms that come in turn, more
 * than there are rows, then still find most of theirs, where giving up the oldest would find none. Calls of other
 * threads hold the entries they run. Not 0 with MemoryError; steals what the row holds. */
static int keep_row(Launcher *l, Row row) {
  size_t bytes = bytes_of(&row);
  Row gone[8]; /* more go with the next row */
  int n_gone = 0, at = look_up(l, row.key, row.words);
  if (at >= 0) gone[n_gone++] = take_out(l, at);
  while (l->rows && n_gone < 8 && (l->rows == MAX_ROWS || l->table_bytes + bytes > MAX_TABLE_BYTES)) {
    l->chance = l->chance * 1664525u + 1013904223u;
    gone[n_gone++] = take_out(l, (int)(l->chance >> 16) % l->rows);
  }
  int failed = grow(l);
  if (!failed) {
    l->table_bytes += bytes;
    l->recent = l->rows++;
    l->row[l->recent] = row;
    link_row(l, l->recent);
  }
  while (n_gone) free_row(gone[--n_gone]); /* last: Python code may call */
  if (failed) free_row(row);
  return failed;
}

static void forget(Launcher *l) {
  Row *row = l->row;
  int rows = l->rows;
  free(l->bucket);
  l->row = NULL;
  l->bucket = NULL;
  l->rows = l->room = l->recent = 0;
  l->table_bytes = 0;
  for (int i = 0; i < rows; i++) free_row(row[i]);
  free(row);
}

/* See to it that keys hold the values of the scalars that an entry's sizes depend on. */
static int take_bounds(Launcher *l, const Entry *e) {
  for (int b = 0; b < e->n_bounds; b++) {
    int k = 0;
    while (k < l->n_bounds && l->bounds[k] < e->bounds[b]) k++;
    if (k < l->n_bounds && l->bounds[k] == e->bounds[b]) continue;
    if (l->n_bounds == MAX_BOUNDS) return -1;
    forget(l); /* its keys lack this value */
    memmove(&l->bounds[k + 1], &l->bounds[k], (size_t)(l->n_bounds - k) * sizeof *l->bounds);
    l->bounds[k] = e->bounds[b];
    l->n_bounds++;
  }
  return 0;
}

/* Whether every output may be written where it lies: apart from all inputs, but for the very views the entry
 * allows, and from other outputs. */
static int may_write(const Entry *e, char *const *data) {
  for (int r = e->n_params; r < e->n_params + e->n_returns; r++) {
    const Operand *o = &e->operand[r];
    for (int i = 0; i < r; i++) {
      const Operand *x = &e->operand[i];
      if (x->pass != BY_ADDRESS || data[i] + x->high <= data[r] + o->low ||
          data[r] + o->high <= data[i] + x->low || x->low == x->high || o->low == o->high)
        continue;
      if (i >= e->n_params || data[i] != data[r] || !e->inplace[(r - e->n_params) * e->n_params + i])
        return 0;
    }
  }
  return 1;
}

static PyObject *fresh_array(const Operand *o, char **data) {
  Storage *s = storage_new((size_t)(o->high - o->low));
  if (!s) return NULL;
  *data = storage_data(s) - o->low;
  PyObject *a = numpy.new_from_descr(
      numpy.array_type, (Descr *)Py_NewRef(o->descr), o->nd, o->dims, o->c_order ? NULL : o->strides, *data,
      ARRAY_WRITEABLE | ARRAY_ALIGNED | (o->c_order ? ARRAY_C_CONTIGUOUS : 0), NULL);
  if (!a) {
    Py_DecRef(&s->ob_base);
    return NULL;
  }
  if (numpy.set_base((Array *)a, &s->ob_base)) {
    Py_DecRef(a);
    return NULL;
  }
  return a;
}

/* A fresh output that another library's array holds. */
typedef struct {
  Managed managed;
  Storage *memory;
  tc_i64 dims[];
} Handed;

static void take_back(Managed *m) { /* called by whoever drops the last array, with or without the GIL */
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DecRef(&((Handed *)m->context)->memory->ob_base);
    PyGILState_Release(state);
  } /* else at the end of the process, whose memory goes with it */
  free(m->context);
}

/* A fresh output of our memory. */
static PyObject *handed(int lender, const Operand *o, char **data) {
  Handed *h = malloc(sizeof *h + 2 * (size_t)o->nd * sizeof *h->dims);
  if (!h) return PyErr_NoMemory();
  if (!(h->memory = storage_new((size_t)(o->high - o->low)))) {
    free(h);
    return NULL;
  }
  *data = storage_data(h->memory) - o->low;
  for (int d = 0; d < o->nd; d++) {
    h->dims[d] = o->dims[d];
    h->dims[o->nd + d] = o->strides[d] / o->item_bytes;
  }
  DLTensor t = {*data, DL_CPU, 0, o->nd, type_of(o->descr, o->item_bytes), h->dims, h->dims + o->nd, 0};
  h->managed = (Managed){EXCHANGE_MAJOR, 0, h, take_back, 0, t};
  void *made = NULL;
  if (!lenders[lender - 1].api->object_of(&h->managed, &made)) return made;
  if (!PyErr_Occurred()) PyErr_SetString(internal_error, "an array library took no memory and said nothing");
  return NULL; /* the memory is the library's, whatever it did with it */
}

/* Ask a lender what its fresh outputs are like. While it answers, another thread may ask for the same entry: so
 * models are set all at once. */
static int take_models(Entry *e, int lender) {
  PyObject *model[MAX_OPERANDS];
  for (int r = 0; r < e->n_returns; r++) {
    const Operand *o = &e->operand[e->n_params + r];
    PyObject *shape = PyTuple_New(o->nd);
    model[r] = NULL;
    for (int d = 0; shape && d < o->nd; d++) PyTuple_SetItem(shape, d, PyLong_FromLongLong(o->dims[d]));
    if (shape && !PyErr_Occurred())
      model[r] = o->c_order ? PyObject_CallFunction(lenders[lender - 1].model, "OO", o->descr, shape)
                            : Py_NewRef(Py_None);
    Py_DecRef(shape);
    if (!model[r]) {
      while (r--) Py_DecRef(model[r]);
      return -1;
    }
  }
  for (int r = 0; r < e->n_returns; r++) {
    PyObject *old = e->model[r];
    e->model[r] = model[r];
    model[r] = old;
  }
  e->modelled = lender;
  for (int r = 0; r < e->n_returns; r++) Py_DecRef(model[r]); /* may run Python */
  return 0;
}

/* A fresh output r that a lender makes, or that holds our memory where it says so. */
static PyObject *fresh_lent(int lender, Entry *e, int r, char **data) {
  const Operand *o = &e->operand[e->n_params + r];
  if (lender == tensor_lender)
    return tensors->fresh(o->type_num, o->item_bytes, o->nd, o->dims, o->c_order ? NULL : o->strides, data);
  if (lenders[lender - 1].model == Py_None) return handed(lender, o, data);
  int is_known = e->modelled && lenders[e->modelled - 1].model == lenders[lender - 1].model;
  if (!is_known && take_models(e, lender)) return NULL;
  if (e->model[r] == Py_None) return handed(lender, o, data);
  PyObject *model = Py_NewRef(e->model[r]); /* another call may take others while the library runs */
  const tc_bridge *bridge = lenders[lender - 1].bridge;
  DLTensor t;
  PyObject *made = bridge ? bridge->make(model, &t) : PyObject_Vectorcall(lenders[lender - 1].make, &model, 1, NULL);
  Py_DecRef(model);
  View v;
  if (!made) return NULL;
  if (!(bridge ? located(lender, &t, &v) : memory_of(lender, made, &v)) || !fits_view(o, &v)) {
    PyErr_SetString(internal_error, "an array library made an output of another form");
    Py_DecRef(made);
    return NULL;
  }
  *data = v.data;
  return made;
}

typedef struct {
  char *slots;
  size_t slot_bytes;
  int parallel;
} Work; /* by value: a new plan may come while the call runs */

static int run_phase(const tc_executable *exe, tc_i64 p, const tc_args *args, Work work, int owner) {
  tc_i64 tasks = args->plan->tasks[p];
  double cost_ns = args->plan->cost_ns[p];
  if (tasks <= 0) return 0;
  if (owner && pool_pays((int)args->threads, tasks, cost_ns))
    return pool_run(exe->phase[p], args, work.slots, work.slot_bytes, tasks, cost_ns);
  return exe->phase[p](args, work.slots, 0, tasks);
}

/* Phases [first, last); of the loops, those from `loop` on may lie in there. */
static int run_span(const tc_executable *exe, tc_i64 first, tc_i64 last, tc_i64 loop, const tc_args *args,
                    Work work, int owner) {
  int rc = 0;
  for (tc_i64 p = first; p < last && !rc && !args->error->code;) {
    while (loop < exe->loops && (exe->loop[loop].first < p || exe->loop[loop].first == exe->loop[loop].last))
      loop++;
    if (loop == exe->loops || exe->loop[loop].first > p || exe->loop[loop].last > last) {
      rc = run_phase(exe, p++, args, work, owner);
      continue;
    }
    const tc_loop *l = &exe->loop[loop];
    tc_range range = {0, 0};
    rc = l->range(args, &range);
    for (tc_i64 t = range.low; t < range.high && !rc && !args->error->code; t++) {
      args->turn[loop] = t;
      rc = run_span(exe, l->first, l->last, loop + 1, args, work, owner);
    }
    p = l->last;
  }
  return rc;
}

static int run_phases(const tc_executable *exe, const tc_args *args, Work work) {
  int owner = work.parallel && pool_take();
  int rc = run_span(exe, 0, exe->phases, 0, args, work, owner);
  if (owner) pool_give();
  return rc;
}

/* A long call lets other Python threads run, and keeps its own copy of the plan. */
static int run_released(const Entry *e, tc_args *args, Work work) {
  tc_plan plan;
  write_plan(e, &plan, TC_MAX_PARAMS);
  args->plan = &plan;
  PyThreadState *state = PyEval_SaveThread();
  int rc = run_phases(e->exe, args, work);
  PyEval_RestoreThread(state);
  return rc;
}

static int execute(const Launcher *l, const Entry *e, Places *at, const tc_scalar *scalars) {
  Storage *memory = NULL;
  if (e->work_bytes && !(memory = storage_new(e->work_bytes))) return -1;
  at->has_run = 1;
  char *shared = memory ? storage_data(memory) : NULL;
  Work work = {memory ? shared + e->shared_bytes : NULL, e->slot_bytes, e->parallel};
  tc_error error = {0, 0, 0, 0, 0};
  tc_i64 turn[TC_MAX_LOOPS];
  int is_long = e->total_ns > RELEASE_NS || e->exe->loops;
  const tc_plan *plan = is_long ? NULL : plan_of(e);
  tc_args args = {at->data, e->sizes, e->strides, scalars, plan, shared, &error, e->planned_threads, turn};
  int rc = is_long ? run_released(e, &args, work) : run_phases(e->exe, &args, work);
  if (memory) Py_DecRef(&memory->ob_base);
  if (error.code == 1) {
    PyObject *r =
        PyObject_CallFunction(l->on_error, "LLLL", error.tensor, error.dim, error.value, error.extent);
    if (r) PyErr_SetString(internal_error, "on_error returned");
    Py_DecRef(r);
    return -1;
  }
  if (rc || error.code) {
    PyErr_Format(internal_error, "kernel %S failed: a phase returned %d, error code %d", l->name, rc,
                 (int)error.code);
    return -1;
  }
  return 0;
}

/* The most threads that the launcher's owner allows now, 0 for all; -1 with an error set. */
static int allowed_threads(const Launcher *l) {
  if (!l->max_threads || l->max_threads == Py_None) return 0;
  PyObject *number = PyObject_Vectorcall(l->max_threads, NULL, 0, NULL);
  long long n = number ? PyLong_AsLongLong(number) : -1;
  Py_DecRef(number);
  return PyErr_Occurred() ? -1 : n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

/* Plan again where the number of threads or a scalar that stands in bounds has changed. No Python code runs here. */
static int ready(Entry *e, int allowed, const tc_scalar *scalars) {
  int threads = threads_of(e, allowed), current = e->planned_threads == threads;
  for (int i = 0, k = 0, b = 0; b < e->n_bounds; i++) {
    if (e->operand[i].pass == BY_ADDRESS) continue;
    if (i == e->bounds[b]) {
      current &= e->planned_scalars[k].i == scalars[k].i;
      e->planned_scalars[k].i = scalars[k].i;
      b++;
    }
    k++;
  }
  return current ? 0 : plan_entry(e, threads);
}

static PyObject *result_of(const Launcher *l, PyObject **made) {
  if (l->n_returns == 1) return made[0];
  PyObject *tuple = PyType_GenericAlloc((PyTypeObject *)l->result_type, l->n_returns);
  for (int r = 0; r < l->n_returns; r++)
    if (tuple)
      PyTuple_SetItem(tuple, r, made[r]);
    else
      Py_DecRef(made[r]);
  return tuple;
}

/* Convert the scalars and look at the outputs; not 0: an output is read-only or overlaps, or a number does
 * not fit. */
static int locate(const Entry *e, PyObject *const *in, PyObject *const *out, char **data,
                  tc_scalar *scalars) {
  int n = e->n_params;
  for (int i = 0, k = 0; i < n; i++) {
    const Operand *o = &e->operand[i];
    if (o->pass == BY_ADDRESS) continue;
    int lender = data[i] && !is_array(in[i]) ? lender_of(in[i]) : 0;
    data[i] = NULL;
    if (lender ? convert_lent(o->pass, o->item_bytes, lender, in[i], &scalars[k])
               : convert_scalar(o->pass, o->item_bytes, in[i], &scalars[k])) {
      if (!lender) PyErr_Clear(); /* a lender's rules may have failed; a number does not fit without an error */
      return 1;
    }
    k++;
  }
  if (!out) return 0;
  for (int r = 0; r < e->n_returns; r++) {
    int lender = is_array(out[r]) ? 0 : lender_of(out[r]);
    if (lender ? !is_writable(lender, out[r]) : !(((Array *)out[r])->flags & ARRAY_WRITEABLE)) return 1;
  }
  return !may_write(e, data);
}

static int tell_all_written(const Entry *e, PyObject *const *out) {
  for (int r = 0; r < e->n_returns; r++) {
    int lender = is_array(out[r]) ? 0 : lender_of(out[r]);
    if (lender && tell_written(lender, out[r])) return -1;
  }
  return 0;
}

/* Run an entry on operands of its form. NULL without an error: nothing has run, slow knows what to do. So does
 * it where memory ended before anything ran. */
static PyObject *run_entry(Launcher *l, Entry *e, PyObject *const *in, PyObject *const *out, Places *at) {
  tc_scalar scalars[MAX_OPERANDS];
  PyObject *made[MAX_OPERANDS];
  char **data = at->data;
  int n = 0;
  Py_IncRef(&e->ob_base); /* whatever runs from here on may clear the table */
  int allowed = 0, failed = locate(e, in, out, data, scalars) || (allowed = allowed_threads(l)) < 0;
  while (!failed && n < e->n_returns) {
    char **place = &data[e->n_params + n];
    made[n] = out         ? Py_NewRef(out[n])
              : at->maker ? fresh_lent(at->maker, e, n, place)
                          : fresh_array(&e->operand[e->n_params + n], place);
    if (made[n])
      n++;
    else
      failed = 1;
  }
  /* the plan comes last: while outputs are made another thread may call, by another plan */
  if (!failed) failed = ready(e, allowed, scalars) || execute(l, e, at, scalars);
  if (!failed) failed = out && n_lenders && tell_all_written(e, out);
  Py_DecRef(&e->ob_base);
  if (!failed) {
    l->calls++;
    return result_of(l, made);
  }
  while (n) Py_DecRef(made[--n]);
  return NULL;
}

static int is_word_of_outputs(PyObject *word) { return word == word_out || word == word_outputs; }

/* The outputs given by out= or outputs=: 1 if given, 0 if not, -1 if the fast path does not take them. */
static int outputs_of(const Launcher *l, PyObject *keyword, PyObject *value, PyObject **out) {
  if (!is_word_of_outputs(keyword)) return -1;
  if (value == Py_None) return 0;
  int is_tuple = is_tuple_type((PyObject *)Py_TYPE(value));
  if (l->n_returns == 1 && !is_tuple) {
    out[0] = value;
    return 1;
  }
  if (!is_tuple || PyTuple_Size(value) != l->n_returns) return -1;
  for (int r = 0; r < l->n_returns; r++) out[r] = PyTuple_GetItem(value, r);
  return 1;
}

/* Whether a call is slow's for no other reason than that an array is tracked: all others are numbers, or arrays of
 * the same library. */
static int is_for_recorded(const Launcher *l, PyObject *const *in, const Mood *mood) {
  if (!mood->is_tracked || !l->recorded || l->recorded == Py_None) return 0;
  for (int i = 0; i < l->n_params; i++) {
    int lender = is_array(in[i]) ? 0 : lender_of(in[i]);
    if (lender ? !same_mood(mood->lender, lender) : is_array(in[i]) || !source_of(in[i])) return 0;
  }
  return 1;
}

/* What a call says by keyword, beside its arguments by position. */
typedef struct {
  PyObject *in[MAX_OPERANDS], *out[MAX_OPERANDS], *generics[MAX_GENERICS];
  int has_out, is_generics; /* is_generics: and nothing else by keyword */
} Named;

static int place_in(PyObject *names, Py_ssize_t from, Py_ssize_t to, PyObject *word) {
  for (Py_ssize_t i = from; i < to; i++)
    if (PyTuple_GetItem(names, i) == word) return (int)i;
  return -1;
}

/* Sort keywords, of which there may be none, and fill in defaults as tell_apart in tcdsl/calls/arguments.py does: a parameter or a generic without a value comes before out=.
 * Not 0: the call is slow's, which knows what is wrong, if anything is. */
static int sort_keywords(const Launcher *l, PyObject *const *args, Py_ssize_t n, PyObject *keywords, Named *to) {
  if (n > l->n_params) return -1;
  memcpy(to->in, args, (size_t)n * sizeof *to->in);
  memset(to->in + n, 0, (size_t)(l->n_params - n) * sizeof *to->in);
  memset(to->generics, 0, (size_t)l->n_generics * sizeof *to->generics);
  to->has_out = 0;
  to->is_generics = 1;
  Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0, named = n;
  for (Py_ssize_t k = 0; k < n_keywords; k++) {
    PyObject *word = PyTuple_GetItem(keywords, k), *value = args[n + k];
    int g = place_in(l->generics, 0, l->n_generics, word);
    if (g >= 0) {
      to->generics[g] = value;
      if (value == Py_None) return -1;
      continue;
    }
    to->is_generics = 0;
    int i = place_in(l->params, n, l->n_params, word);
    if (i >= 0 && !to->in[i]) {
      to->in[i] = value;
      named++;
      continue;
    }
    int given = outputs_of(l, word, value, to->out);
    if (given < 0 || (given && to->has_out)) return -1;
    to->has_out |= given;
  }
  for (int i = (int)n; l->defaults && named < l->n_params && i < l->n_params; i++) {
    PyObject *value = to->in[i] ? Py_None : PyTuple_GetItem(l->defaults, i);
    if (value == Py_None) continue;
    to->in[i] = value;
    named++;
  }
  return named == l->n_params ? 0 : -1;
}

/* Run a call whose form is known, or hand it to `recorded`. NULL without an error: it is slow's. */
static inline PyObject *run_form(Launcher *l, PyObject *const *in, PyObject *const *out, tc_i64 *key, tc_i64 *w,
                                 int may_record, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  Places at;
  Mood mood = {0, 0, 0, 0, 0};
  size_t words = key_of(l, in, out, key, w, &at, &mood);
  int row = words ? look_up(l, key, words) : -1;
  if (!words && PyErr_Occurred()) return NULL;
  if (may_record && is_for_recorded(l, in, &mood)) return PyObject_Vectorcall(l->recorded, args, nargsf, keywords);
  if (row < 0) return NULL;
  l->recent = row;
  PyObject *result = run_entry(l, l->row[row].entry, in, out, &at);
  if (!result && !at.has_run && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError))
    PyErr_Clear(); /* memory ended before anything ran: slow says for what */
  return result;
}

static PyObject *run_plain(Launcher *l, PyObject *const *args, size_t nargsf) {
  tc_i64 key[KEY_WORDS];
  key[0] = 0;
  return run_form(l, args, NULL, key, key + 1, 1, args, nargsf, NULL);
}

/* Whether outputs are all that comes by keyword; a generic may be called so. */
static int is_only_outputs(const Launcher *l, PyObject *keywords) {
  PyObject *word = PyTuple_GetItem(keywords, 0);
  return is_word_of_outputs(word) && place_in(l->generics, 0, l->n_generics, word) < 0;
}

/* The usual one: all arguments by position, and outputs. */
static PyObject *run_into(Launcher *l, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  tc_i64 key[KEY_WORDS];
  PyObject *out[MAX_OPERANDS];
  int given = outputs_of(l, PyTuple_GetItem(keywords, 0), args[l->n_params], out);
  if (given < 0) return NULL;
  key[0] = given;
  return run_form(l, args, given ? out : NULL, key, key + 1, 0, args, nargsf, keywords);
}

static PyObject *run_named(Launcher *l, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  tc_i64 key[KEY_WORDS], *w;
  Named named;
  if (sort_keywords(l, args, PyVectorcall_NARGS(nargsf), keywords, &named) ||
      !(w = key_generics(l, named.generics, named.has_out, key)))
    return NULL;
  /* a generic that is no number may be a tensor, of which slow asks more */
  int may_record = named.is_generics && !(key[0] >> (1 + MAX_GENERICS));
  Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_keywords = keywords ? PyTuple_Size(keywords) : 0;
  PyObject *whole[MAX_OPERANDS + MAX_GENERICS]; /* `recorded` takes all parameters by position */
  if (may_record && n < l->n_params && n_keywords <= MAX_GENERICS) {
    memcpy(whole, named.in, (size_t)l->n_params * sizeof *whole);
    memcpy(whole + l->n_params, args + n, (size_t)n_keywords * sizeof *whole);
    args = whole;
    nargsf = (size_t)l->n_params;
  } else if (n < l->n_params)
    may_record = 0;
  return run_form(l, named.in, named.has_out ? named.out : NULL, key, w, may_record, args, nargsf, keywords);
}

static PyObject *launcher_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *keywords) {
  Launcher *l = (Launcher *)self;
  PyObject *result = NULL;
  if (!l->slow) {
    PyErr_SetString(PyExc_TypeError, "this launcher was not initialised");
    return NULL;
  }
  Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_keywords = keywords ? PyTuple_Size(keywords) : 0;
  int is_unusual = l->unusual && l->unusual != Py_None && is_true(PyObject_Vectorcall(l->unusual, NULL, 0, NULL));
  if (is_unusual)
    ; /* slow's, or an error */
  else if (n == l->n_params && !n_keywords)
    result = run_plain(l, args, nargsf);
  else if (n == l->n_params && n_keywords == 1 && is_only_outputs(l, keywords))
    result = run_into(l, args, nargsf, keywords);
  else if (n_keywords || (l->defaults && n < l->n_params))
    result = run_named(l, args, nargsf, keywords);
  if (result || PyErr_Occurred()) return result;
  return PyObject_Vectorcall(l->slow, args, nargsf, keywords);
}
