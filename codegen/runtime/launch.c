/* Launcher, the callable: looks its operands up in the table, allocates, runs; all else is slow's. */

enum { RELEASE_NS = 20000 }; /* a call that takes longer lets other Python threads run */

typedef struct {
  char *slots;
  size_t slot_bytes;
  int parallel;
} Work; /* of one call: a new plan may come while it runs */

static int run_phase(const tc_executable *exe, tc_i64 p, const tc_args *args, const Work *work, int owner) {
  tc_i64 tasks = args->plan->tasks[p];
  double cost_ns = args->plan->cost_ns[p];
  if (tasks <= 0) return 0;
  if (owner && pool_pays((int)args->threads, tasks, cost_ns))
    return pool_run(exe->phase[p], args, work->slots, work->slot_bytes, tasks, cost_ns);
  return exe->phase[p](args, work->slots, 0, tasks);
}

/* Phases [first, last); of the loops, those from `loop` on may lie in there. */
static int run_span(const tc_executable *exe, tc_i64 first, tc_i64 last, tc_i64 loop, const tc_args *args,
                    const Work *work, int owner) {
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

static int run_phases(const tc_executable *exe, const tc_args *args, const Work *work) {
  int owner = work->parallel && pool_take();
  int rc = run_span(exe, 0, exe->phases, 0, args, work, owner);
  if (owner) pool_give();
  return rc;
}

/* A long call lets other Python threads run, and keeps its own copy of the plan. */
static int run_released(const Entry *e, tc_args *args, const Work *work) {
  tc_plan plan;
  write_plan(e, &plan, TC_MAX_PARAMS);
  args->plan = &plan;
  PyThreadState *state = PyEval_SaveThread();
  int rc = run_phases(e->exe, args, work);
  PyEval_RestoreThread(state);
  return rc;
}

static inline int is_long(const Entry *e) { return e->total_ns > RELEASE_NS || e->exe->loops; }

/* Keep the memory of tensors while a call runs that may let other threads run: one of those may give a tensor other
 * memory (`x.data = y`, `resize_`, `out=` of another shape). How many were kept. */
static int keep_memory(const Entry *e, PyObject *const *in, PyObject *const *out, Storage **kept) {
  int n = 0;
  if (e->planned_threads && !e->n_bounds && !is_long(e)) return 0; /* before its first plan nobody knows */
  for (int i = 0; i < e->n_params + (out ? e->n_returns : 0); i++) {
    PyObject *o = i < e->n_params ? in[i] : out[i - e->n_params];
    if (e->operand[i].pass == BY_ADDRESS && tensor_lender && lender_of(o) == tensor_lender)
      kept[n++] = (Storage *)Py_NewRef(((TensorHead *)o)->storage);
  }
  return n;
}

static int execute(const Launcher *l, const Entry *e, Places *at, const tc_scalar *scalars) {
  Storage *memory = NULL;
  if (e->work_bytes && !(memory = storage_new(e->work_bytes))) return -1;
  at->has_run = 1;
  char *shared = memory ? storage_data(memory) : NULL;
  Work work = {memory ? shared + e->shared_bytes : NULL, e->slot_bytes, e->parallel};
  tc_error error = {0, 0, 0, 0, 0};
  tc_i64 turn[TC_MAX_LOOPS];
  const tc_plan *plan = is_long(e) ? NULL : plan_of(e);
  tc_args args = {at->data, e->sizes, e->strides, scalars, plan, shared, &error, e->planned_threads, turn};
  tc_i64 from = trace.is_on ? now_ns() : 0;
  int rc = !plan ? run_released(e, &args, &work) : run_phases(e->exe, &args, &work);
  if (from) trace_call(l, e, from);
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
  Storage *kept[MAX_OPERANDS];
  char **data = at->data;
  int n = 0, n_kept = keep_memory(e, in, out, kept);
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
  while (n_kept) Py_DecRef(&kept[--n_kept]->ob_base);
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
  if (row >= 0) l->recent = row;
  Entry *e = row >= 0 ? l->row[row].entry : words ? entry_of_kind(l, key, (size_t)(w - key), words) : NULL;
  if (!e) return NULL;
  PyObject *result = run_entry(l, e, in, out, &at);
  if (row < 0) Py_DecRef(&e->ob_base);
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
