/* A launcher's table: the key of a call is the exact form of its operands; rows are found by a hash of it. */

enum { MAX_ROWS = 8192, MAX_TABLE_BYTES = 16 << 20, KEY_WORDS = 2048, MAX_GENERICS = 31, MAX_BOUNDS = 64 };

typedef struct {
  tc_u64 mix;
  tc_i64 *key;
  size_t words;
  Entry *entry;
  PyObject *generics; /* a value for each generic, kept since words may be addresses of some; or NULL */
  int next; /* row of the same bucket, or -1 */
} Row;

typedef struct Kind Kind; /* kinds.c */

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
  int kinds;
  Kind *kind; /* what gives forms without a row their entries */
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

/* Whether these operands, all of them tensors, have the form of the latest call: then no key is made of them. */
static inline int is_recent(const Launcher *l, PyObject *const *in, PyObject *const *out, Places *at) {
  if (!l->rows || l->n_bounds || !tensors) return 0;
  const Row *row = &l->row[l->recent];
  const tc_i64 *w = row->key, *end = w + row->words;
  if (*w++ != (out != NULL)) return 0;
  for (int i = 0; i < l->n_params + (out ? l->n_returns : 0); i++) {
    const TensorHead *t = (TensorHead *)(i < l->n_params ? in[i] : out[i - l->n_params]);
    if (Py_TYPE(t) != tensors->type || w == end || *w++ != t->form) return 0;
    for (int d = 0, n = 2 * rank_of(t); d < n; d++)
      if (*w++ != t->dims[d]) return 0;
    at->data[i] = t->data;
  }
  at->maker = tensor_lender;
  at->has_run = 0;
  return w == end;
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

static void forget_kinds(Launcher *l);

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
  forget_kinds(l);
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
