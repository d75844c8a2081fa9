/* Objects that died, for the next ones of their type and size: what the allocator and the collector's count of objects
 * ask is half of what a tensor costs. The collector does not count those that live again, and they are few. */

enum { MOST_IDLE = 64 };
typedef struct { void *at[MOST_IDLE]; int n; } Idle; /* still of their type, and no longer seen by the collector */

/* One that lives again, its fields as it left them; or NULL. */
static inline void *take_idle(Idle *idle) {
  if (!idle->n) return NULL;
  PyObject *o = idle->at[--idle->n];
  o->ob_refcnt = 1;
  return o;
}

/* Keep one that died; 0 if there are enough. */
static inline int keep_idle(Idle *idle, void *o) {
  if (idle->n == MOST_IDLE) return 0;
  idle->at[idle->n++] = o;
  return 1;
}
