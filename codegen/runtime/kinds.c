/* Kinds of forms: same types, ranks and extents of 1, in C order. An executable for many sizes is bound to new ones
 * here, without Python: what its entry holds, and what it asks of them, are sums of products of the operands' extents.
 *
 * A rule says them in integers. A number: how many terms; of each its factor, how many atoms, and these: the place of
 * an extent, or what is below. A rule: 1 if strides are not those of the operands; how many guards, and of each what
 * its number has to be, and that, or how many numbers are not all the same as values, and these with their values, or
 * how many extents have room in memory, and these, each with the least that it counts as; the sizes; the extents of the
 * returns; where the strides are others, these.
 */

enum { RULE_DIV = -1, RULE_MOD = -2, RULE_MIN = -3, RULE_MAX = -4 }; /* of two numbers, which follow */
enum { IS_ZERO, IS_NOT_ZERO, IS_NO_LESS, IS_LESS, ARE_APART, HAVE_ROOM }; /* than 0 */
static const tc_i64 MOST_ROOM = (tc_i64)1 << 52;                           /* bytes of an array, as in calls/call.py */
enum { MAX_KINDS = 64, MAX_RULE_WORDS = 1 << 14 };

struct Kind {
  tc_u64 mix;
  tc_i64 *key; /* without extents and strides, then the rule */
  size_t words, rule_words;
  Entry *like;
  PyObject *generics; /* as of a row */
};

/* A rule as it is read, at some extents. */
typedef struct {
  const tc_i64 *at, *end, *extent;
  int extents, failed; /* failed: a number is too large, or the rule is none */
} Rule;

static tc_i64 rule_word(Rule *r) {
  if (r->at < r->end) return *r->at++;
  r->failed = 1;
  return 0;
}

static tc_i64 rule_number(Rule *r);

static tc_i64 rule_atom(Rule *r) {
  tc_i64 what = rule_word(r);
  if (what >= 0 && what < r->extents) return r->extent[what];
  if (what >= 0 || what < RULE_MAX || r->failed) {
    r->failed = 1;
    return 0;
  }
  tc_i64 a = rule_number(r), b = rule_number(r);
  if (what == RULE_MIN) return a < b ? a : b;
  if (what == RULE_MAX) return a > b ? a : b;
  if (!b) return 0;
  if (b == -1) { /* what a processor does not divide by it */
    r->failed |= a + 1 < -0x7fffffffffffffff;
    return what == RULE_DIV && !r->failed ? -a : 0;
  }
  tc_i64 rest = a % b;
  int below = rest && (rest < 0) != (b < 0);
  return what == RULE_DIV ? a / b - below : rest + (below ? b : 0);
}

static tc_i64 rule_number(Rule *r) {
  tc_i64 sum = 0;
  for (tc_i64 terms = rule_word(r); terms > 0 && !r->failed; terms--) {
    tc_i64 term = rule_word(r);
    for (tc_i64 atoms = rule_word(r); atoms > 0 && !r->failed; atoms--)
      r->failed |= __builtin_mul_overflow(term, rule_atom(r), &term);
    r->failed |= __builtin_add_overflow(sum, term, &sum);
  }
  return sum;
}

/* Whether the extents are among those that a rule is for. */
static int rule_holds(Rule *r) {
  for (tc_i64 guards = rule_word(r); guards > 0; guards--) {
    tc_i64 what = rule_word(r);
    int holds = 0;
    if (what == ARE_APART)
      for (tc_i64 numbers = rule_word(r); numbers > 0 && !r->failed; numbers--) {
        tc_i64 n = rule_number(r);
        holds |= n != rule_word(r);
      }
    else if (what == HAVE_ROOM) {
      tc_i64 bytes = 1;
      for (tc_i64 numbers = rule_word(r); numbers > 0 && !r->failed; numbers--) {
        tc_i64 n = rule_number(r), least = rule_word(r);
        r->failed |= __builtin_mul_overflow(bytes, n > least ? n : least, &bytes);
      }
      holds = bytes < MOST_ROOM;
    } else {
      tc_i64 n = rule_number(r);
      holds = what == IS_ZERO ? n == 0 : what == IS_NOT_ZERO ? n != 0 : what == IS_NO_LESS ? n >= 0 : n < 0;
    }
    if (!holds || r->failed) return 0;
  }
  return 1;
}

/* The kind of a key whose operands' words begin at `first`: the words that are left, and the extents; 0 words where a
 * kind serves none such, as where an array is not in C order. */
static size_t kind_of_key(const Launcher *l, const tc_i64 *key, size_t first, size_t words, tc_i64 *kind,
                          tc_i64 *extent, int *extents) {
  const tc_i64 *w = key + first, *end = key + words;
  tc_i64 *k = kind + first;
  int n = 0;
  if (l->n_bounds) return 0;
  memcpy(kind, key, first * sizeof *key);
  while (w < end) {
    tc_i64 head = *w++, ones = 0, step;
    *k++ = head;
    if (head >> 62 & 1) continue; /* a number */
    int nd = (int)(head >> 32 & 0xffff), lender = (int)(head >> 48);
    step = lender && lender == tensor_lender ? 1 : item_bytes_of((int)(head & 0xffff));
    for (int d = nd - 1; d >= 0; d--) {
      if (w[d] <= 0 || (w[d] > 1 && w[nd + d] != step) || __builtin_mul_overflow(step, w[d], &step)) return 0;
      ones |= (tc_i64)((tc_u64)(w[d] == 1) << d);
    }
    for (int d = 0; d < nd; d++) extent[n++] = w[d];
    *k++ = ones;
    w += 2 * nd;
  }
  *extents = n;
  return (size_t)(k - kind);
}

/* Give an operand extents, in C order; not 0 if it is too large. elements: where strides go that phases see, or NULL. */
static int set_extents(Operand *o, tc_i64 *elements) {
  tc_i64 step = 1;
  for (int d = o->nd - 1; d >= 0; d--) {
    if (elements) elements[d] = step;
    if (__builtin_mul_overflow(step, o->item_bytes, &o->strides[d])) return -1;
    if (__builtin_mul_overflow(step, o->dims[d] ? o->dims[d] : 1, &step)) return -1;
  }
  return measure(o);
}

/* Fill an entry like another, whose arrays it has, by a rule; not 0 where it does not hold. */
static int fill_by_rule(Entry *e, const Entry *like, Rule *r, int has_out) {
  size_t n_sizes = (size_t)(like->strides - like->sizes), n_strides = (size_t)((tc_i64 *)like->dims - like->strides);
  size_t room = (size_t)((Py_ssize_t *)like->planned_scalars - like->dims) / 2;
  int n = like->n_params + like->n_returns, others = (int)rule_word(r), used = 0;
  if (!rule_holds(r)) return -1;
  if (take_block(e, (size_t)like->n_params, (size_t)like->n_returns, n_sizes, n_strides, room)) {
    PyErr_Clear();
    return -1;
  }
  for (size_t i = 0; i < n_sizes; i++) e->sizes[i] = rule_number(r);
  for (int i = 0; i < n; i++) {
    Operand *o = &e->operand[i];
    *o = like->operand[i];
    Py_IncRef((PyObject *)o->descr);
    if (o->pass != BY_ADDRESS) continue;
    if ((size_t)(used + o->nd) > room) return -1;
    o->dims = e->dims + 2 * used;
    o->strides = o->dims + o->nd;
    o->c_order = 1;
    for (int d = 0; d < o->nd; d++) {
      if (i < like->n_params && used + d >= r->extents) return -1;
      o->dims[d] = i < like->n_params ? r->extent[used + d] : rule_number(r);
      if (o->dims[d] < 0 || r->failed) return -1;
      if (i >= like->n_params && has_out && (used + d >= r->extents || r->extent[used + d] != o->dims[d])) return -1;
    }
    if (set_extents(o, others ? NULL : e->strides + used)) return -1;
    used += o->nd;
  }
  for (size_t i = 0; others && i < n_strides; i++) e->strides[i] = rule_number(r);
  for (int i = 0; i < like->n_params; i++)
    for (int k = 0; k < like->n_returns; k++) {
      int at = k * like->n_params + i;
      e->inplace[at] =
          like->inplace[at] && same_view(&e->operand[like->n_params + k], &e->operand[i]);
    }
  return r->failed || r->at != r->end ? -1 : 0;
}

/* A new entry by a rule, or NULL without an error. */
static Entry *entry_by_rule(const Entry *like, Rule *r, int has_out) {
  Entry *e = (Entry *)PyType_GenericAlloc(entry_type, 0);
  if (!e) {
    PyErr_Clear();
    return NULL;
  }
  e->exe = like->exe;
  e->keep = Py_NewRef(like->keep);
  e->max_threads = like->max_threads;
  if (!fill_by_rule(e, like, r, has_out)) {
    if (like->note) e->note = Py_NewRef(like->note);
    return e;
  }
  Py_DecRef(&e->ob_base);
  return NULL;
}

static Rule rule_of(const Kind *kind, const tc_i64 *extent, int extents) {
  const tc_i64 *rule = kind->key + kind->words;
  return (Rule){rule, rule + kind->rule_words, extent, extents, 0};
}

/* The entry of a form that no row has, by a kind that was met: installed, as a new reference. NULL without an error:
 * slow makes it. Python code may run. */
static Entry *entry_of_kind(Launcher *l, const tc_i64 *key, size_t first, size_t words) {
  tc_i64 found[KEY_WORDS], extent[KEY_WORDS];
  int extents;
  if (!l->kinds) return NULL;
  size_t n = kind_of_key(l, key, first, words, found, extent, &extents);
  if (!n) return NULL;
  tc_u64 mix = mix_of(found, n);
  Entry *e = NULL;
  const Kind *kind = NULL;
  for (int i = 0; i < l->kinds && !e; i++) {
    kind = &l->kind[i];
    if (kind->mix != mix || kind->words != n || !same_words(kind->key, found, n)) continue;
    Rule r = rule_of(kind, extent, extents);
    e = entry_by_rule(kind->like, &r, (int)(key[0] & 1));
  }
  tc_i64 *kept = e ? malloc(words * sizeof *kept) : NULL;
  if (!kept) return e;
  memcpy(kept, key, words * sizeof *kept);
  Row row = {mix_of(key, words), kept, words, (Entry *)Py_NewRef(&e->ob_base),
             kind->generics ? Py_NewRef(kind->generics) : NULL, -1};
  if (keep_row(l, row)) PyErr_Clear(); /* this call has its entry */
  return e;
}

static int same_block(const Entry *a, const Entry *b) {
  size_t n = (size_t)((char *)a->planned_scalars - (char *)a->sizes); /* sizes, strides, extents and strides */
  return a->block_bytes == b->block_bytes && !memcmp(a->sizes, b->sizes, n);
}

static void free_kind(Kind kind) {
  free(kind.key);
  Py_DecRef(&kind.like->ob_base);
  Py_DecRef(kind.generics);
}

/* Keep a rule for forms like that of this key, which has this entry. 0 without an error: nothing of it is kept. */
static int keep_kind(Launcher *l, const tc_i64 *key, size_t first, size_t words, Entry *e, PyObject *generics,
                     PyObject *rule) {
  tc_i64 found[KEY_WORDS], extent[KEY_WORDS];
  int extents;
  Py_ssize_t n_rule = tuple_length(rule);
  if (n_rule < 0) return -1;
  size_t n = kind_of_key(l, key, first, words, found, extent, &extents);
  if (!n || n_rule > MAX_RULE_WORDS || e->n_bounds) return 0;
  Kind kind = {mix_of(found, n), malloc((n + (size_t)n_rule) * sizeof *kind.key), n, (size_t)n_rule, NULL, NULL};
  if (kind.key) {
    memcpy(kind.key, found, n * sizeof *found);
    for (Py_ssize_t i = 0; i < n_rule; i++) kind.key[n + (size_t)i] = PyLong_AsLongLong(PyTuple_GetItem(rule, i));
  }
  Kind *room = kind.key && !PyErr_Occurred() ? realloc(l->kind, MAX_KINDS * sizeof *room) : NULL;
  if (!room) {
    free(kind.key);
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return -1;
  }
  l->kind = room;
  Rule r = rule_of(&kind, extent, extents);
  Entry *again = entry_by_rule(e, &r, (int)(key[0] & 1));
  int is_right = again && same_block(again, e);
  Py_DecRef((PyObject *)again);
  if (!is_right) {
    free(kind.key);
    PyErr_SetString(PyExc_ValueError, "a rule that does not give the entry it comes with");
    return -1;
  }
  kind.like = (Entry *)Py_NewRef(&e->ob_base);
  kind.generics = generics ? Py_NewRef(generics) : NULL;
  if (l->kinds < MAX_KINDS) {
    l->kind[l->kinds++] = kind;
    return 0;
  }
  l->chance = l->chance * 1664525u + 1013904223u;
  Kind *place = &l->kind[(l->chance >> 16) % MAX_KINDS], gone = *place;
  *place = kind;
  free_kind(gone);
  return 0;
}

/* May run Python code. */
static void forget_kinds(Launcher *l) {
  Kind *kind = l->kind;
  int kinds = l->kinds;
  l->kind = NULL;
  l->kinds = 0;
  for (int i = 0; i < kinds; i++) free_kind(kind[i]);
  free(kind);
}
