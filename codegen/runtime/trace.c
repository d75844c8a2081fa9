/* Calls as they ran, kept while somebody traces. Off, a call pays for one test. The GIL guards it. */

enum { MOST_TRACED = 1 << 22 }; /* 160 MB; later calls are counted, not kept */

typedef struct {
  PyObject *launcher, *entry;
  tc_i64 from, to; /* CLOCK_MONOTONIC */
  unsigned long thread;
} Traced;

static struct {
  int is_on;
  Traced *call;
  size_t n, room;
  long long lost;
} trace;

static void trace_call(const void *launcher, const void *entry, tc_i64 from) {
  tc_i64 to = now_ns();
  if (!trace.is_on) return; /* turned off while the call ran */
  if (trace.n == trace.room && trace.room < MOST_TRACED) {
    size_t room = trace.room ? 2 * trace.room : 1024;
    Traced *call = realloc(trace.call, room * sizeof *call);
    if (call) {
      trace.call = call;
      trace.room = room;
    }
  }
  if (trace.n == trace.room) {
    trace.lost++;
    return;
  }
  trace.call[trace.n++] =
      (Traced){Py_NewRef((void *)launcher), Py_NewRef((void *)entry), from, to, (unsigned long)pthread_self()};
}

static PyObject *m_trace(PyObject *m, PyObject *on) {
  (void)m;
  int is_on = PyObject_IsTrue(on);
  if (is_on < 0) return NULL;
  trace.is_on = is_on;
  return Py_NewRef(Py_None);
}

/* The calls since the last asking, and how many there were that are not kept. */
static PyObject *m_traced(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  Traced *call = trace.call;
  size_t n = trace.n;
  long long lost = trace.lost;
  trace.call = NULL; /* while objects are made another thread may call */
  trace.n = trace.room = 0;
  trace.lost = 0;
  PyObject *rows = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; i < n; i++) {
    const Traced *c = &call[i];
    PyObject *row =
        rows ? Py_BuildValue("OOLLk", c->launcher, c->entry, (long long)c->from, (long long)c->to, c->thread) : NULL;
    if (!row || PyTuple_SetItem(rows, (Py_ssize_t)i, row)) Py_CLEAR(rows);
    Py_DecRef(c->launcher);
    Py_DecRef(c->entry);
  }
  free(call);
  PyObject *result = rows ? Py_BuildValue("OL", rows, lost) : NULL;
  Py_DecRef(rows);
  return result;
}
