// A CUDA driver for tests: a shared object with the entry points that hencedge
// binds. Memory, copies and events are real and happen at once; kernels do
// nothing. The control file (its path is compiled in) is read at every call:
//
//   fail NAME CODE [SKIP [COUNT]]
//                           NAME ("*": every call that needs a context) returns
//                           CODE, after SKIP calls of it that do not, COUNT
//                           times. Where CODE is one that no context survives,
//                           all calls that need the context then return it, until
//                           the context is reset.
//   answer SIZE PATH        downloads of SIZE bytes, and mapped memory of SIZE
//                           bytes when a stream is waited for, hold the file
//   attribute ID VALUE      of every device
//   hold NAME PATH [SKIP]   a call of NAME makes the file PATH.reached and waits while
//                           there is a file PATH, after SKIP calls that do not
//   devices N
//   real PATH               a driver that does the work of every call that this
//                           one does not fail
//   log PATH                one line for every failed call
//
// Attributes of the device from 1000 on are not CUDA's: how many contexts, blocks of
// device and of host memory, streams, events, graphs and executable graphs there are,
// how many bytes were copied to the device, how many kernels (but for those in graphs)
// and graphs were launched, and how many of both between the last events whose time was
// asked for.
// A reset ends them all, so what is given back to a context that is gone makes the
// number negative.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uintptr_t word;
typedef word (*entry)(word, word, word, word, word, word, word, word, word, word, word);

enum { INVALID = 1, NO_MEMORY = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sticky;         // what the context failed with
static char failing[256];  // the fail line that is counted
static long seen;          // calls that it matched

static void *real;

struct control {
  char fail[128], answer[512], log[512], real[512], line[256], held[128], gate[512];
  int code, devices;
  long skip, count, size, pass;
  int attribute[16], value[16], attributes;
};

static char behind[512]; // the real driver, also when the control file is gone

static void control(struct control *c) {
  memset(c, 0, sizeof *c);
  c->devices = 1;
  FILE *f = fopen(CONTROL, "r");
  if (!f) { // the test is over; what it left is freed where it was allocated
    memcpy(c->real, behind, sizeof behind);
    return;
  }
  char line[1024];
  while (fgets(line, sizeof line, f)) {
    long x = 0, y = 0;
    c->count = c->code ? c->count : 1L << 40;
    if (sscanf(line, "fail %127s %d %ld %ld", c->fail, &c->code, &c->skip, &c->count) >= 2) snprintf(c->line, sizeof c->line, "%.255s", line);
    else if (sscanf(line, "answer %ld %511s", &c->size, c->answer) == 2) {}
    else if (sscanf(line, "attribute %ld %ld", &x, &y) == 2 && c->attributes < 16) c->attribute[c->attributes] = x, c->value[c->attributes++] = y;
    else if (sscanf(line, "devices %ld", &x) == 1) c->devices = x;
    else if (sscanf(line, "real %511s", c->real) == 1) {}
    else if (sscanf(line, "log %511s", c->log) == 1) {}
    else if (sscanf(line, "hold %127s %511s %ld", c->held, c->gate, &c->pass) >= 2) {}
  }
  fclose(f);
  if (c->real[0] && !behind[0]) memcpy(behind, c->real, sizeof behind);
}

static int survives(int code) {
  static const int fatal[] = {46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999};
  for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; i++)
    if (fatal[i] == code) return 0;
  return 1;
}

// needs reports whether a call uses the context.
static int needs(const char *name) {
  static const char *const without[] = {"cuInit", "cuDriverGetVersion", "cuDevice", "cuGetError"};
  for (unsigned i = 0; i < sizeof without / sizeof *without; i++)
    if (!strncmp(name, without[i], strlen(without[i]))) return 0;
  return 1;
}

// injected is what a call fails with, 0 if it does not.
static int injected(const char *name, struct control *c) {
  pthread_mutex_lock(&lock);
  int code = 0;
  if (strcmp(failing, c->line)) {
    snprintf(failing, sizeof failing, "%s", c->line);
    seen = 0;
  }
  if (!strcmp(name, "cuDevicePrimaryCtxReset_v2")) sticky = 0;
  if (sticky && needs(name)) code = sticky;
  else if (c->code && (!strcmp(c->fail, name) || (!strcmp(c->fail, "*") && needs(name))) && seen++ >= c->skip && seen <= c->skip + c->count) {
    code = c->code;
    if (!survives(code)) sticky = code;
  }
  if (code && c->log[0]) {
    FILE *f = fopen(c->log, "a");
    if (f) fprintf(f, "%s %d\n", name, code), fclose(f);
  }
  pthread_mutex_unlock(&lock);
  return code;
}

static entry forward(const char *name, struct control *c) {
  if (!c->real[0]) return 0;
  pthread_mutex_lock(&lock);
  if (!real) real = dlopen(c->real, RTLD_NOW | RTLD_LOCAL);
  entry e = real ? (entry)dlsym(real, name) : 0;
  pthread_mutex_unlock(&lock);
  return e;
}

// wait waits while the gate of a call is there.
static void wait_at(const char *name, struct control *c) {
  static char holding[512]; // the gate that calls are counted at
  static long passed;
  if (!c->held[0] || strcmp(c->held, name) || access(c->gate, F_OK)) return;
  pthread_mutex_lock(&lock);
  if (strcmp(holding, c->gate)) {
    memcpy(holding, c->gate, sizeof holding);
    passed = 0;
  }
  int pass = passed++ < c->pass;
  pthread_mutex_unlock(&lock);
  if (pass) return;
  char reached[600];
  snprintf(reached, sizeof reached, "%s.reached", c->gate);
  FILE *f = fopen(reached, "w");
  if (f) fclose(f);
  while (!access(c->gate, F_OK)) usleep(200);
}

// What there is, see above.
enum { CONTEXTS, DEVICE, HOST, STREAMS, EVENTS, GRAPHS, EXECS, COPIED, LAUNCHES, GRAPH_LAUNCHES, TIMED, KINDS };
static int live[KINDS];
static word more(int kind) { return __atomic_add_fetch(&live[kind], 1, __ATOMIC_SEQ_CST), 0; }
static word less(int kind) { return __atomic_sub_fetch(&live[kind], 1, __ATOMIC_SEQ_CST), 0; }

// FN defines an entry point: failed, forwarded, or done by the body.
#define FN(name)                                                                                                            \
  static word name##_does(struct control *, word, word, word, word, word, word, word, word, word, word, word);              \
  word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k) {                       \
    struct control ctl;                                                                                                     \
    control(&ctl);                                                                                                          \
    wait_at(#name, &ctl);                                                                                                   \
    int code = injected(#name, &ctl);                                                                                       \
    if (code) return code;                                                                                                  \
    entry r = forward(#name, &ctl);                                                                                         \
    return r ? r(a, b, c, d, e, f, g, h, i, j, k) : name##_does(&ctl, a, b, c, d, e, f, g, h, i, j, k);                     \
  }                                                                                                                         \
  static word name##_does(struct control *ctl, word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k)
#define NOTHING (void)ctl, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k
#define SET(type, p, v) (*(type *)(p) = (v))

FN(cuInit) { NOTHING; return 0; }
FN(cuDriverGetVersion) { NOTHING; SET(int, a, 12060); return 0; }
FN(cuDeviceGetCount) { NOTHING; SET(int, a, ctl->devices); return 0; }
FN(cuDeviceGet) { NOTHING; SET(int, a, (int)b); return (int)b < ctl->devices ? 0 : 101; }
FN(cuDeviceGetName) { NOTHING; snprintf((char *)a, (size_t)b, "Fake GPU %d", (int)c); return 0; }
FN(cuDeviceGetUuid) { NOTHING; memset((void *)a, 0xf0 + (int)b, 16); return 0; }
FN(cuDeviceTotalMem_v2) { NOTHING; SET(uint64_t, a, 8ull << 30); return 0; }
FN(cuDeviceGetAttribute) {
  NOTHING;
  int v = 0;
  switch ((int)b) {
    case 16: v = 8; break;             // multiprocessors
    case 19: case 41: v = 1; break;    // mapped host memory, unified addressing
    case 38: v = 4 << 20; break;       // L2
    case 39: v = 1536; break;          // threads of a multiprocessor
    case 75: v = 8; break;             // capability 8.7
    case 76: v = 7; break;
    case 97: v = 163 << 10; break;     // shared memory
  }
  if (b >= 1000 && b < 1000 + KINDS) v = __atomic_load_n(&live[b - 1000], __ATOMIC_SEQ_CST);
  for (int n = 0; n < ctl->attributes; n++)
    if (ctl->attribute[n] == (int)b) v = ctl->value[n];
  SET(int, a, v);
  return 0;
}
FN(cuDevicePrimaryCtxRetain) { NOTHING; SET(word, a, 1 + (int)b); __atomic_store_n(&live[CONTEXTS], 1, __ATOMIC_SEQ_CST); return 0; }
FN(cuDevicePrimaryCtxReset_v2) {
  NOTHING;
  for (int n = 0; n < KINDS; n++) __atomic_store_n(&live[n], 0, __ATOMIC_SEQ_CST);
  return 0;
}
FN(cuCtxSetCurrent) { NOTHING; return 0; }
FN(cuModuleLoadData) { NOTHING; SET(word, a, 2); return *(uint32_t *)b == 0xba55ed50u ? 0 : 200; }
FN(cuModuleGetFunction) { NOTHING; SET(word, a, 3); return 0; }
FN(cuFuncSetAttribute) { NOTHING; return 0; }
FN(cuFuncGetAttribute) { NOTHING; SET(int, a, b == 3 ? 0 : 64); return 0; }
FN(cuOccupancyMaxActiveBlocksPerMultiprocessor) { NOTHING; SET(int, a, 4); return 0; }
static void *mapping[64]; // mapped memory of the answer's size
static int mappings;
static word answer(struct control *ctl, void *to) {
  if (!ctl->answer[0]) return 0;
  FILE *in = fopen(ctl->answer, "rb");
  word r = in && fread(to, 1, ctl->size, in) == (size_t)ctl->size ? 0 : INVALID;
  if (in) fclose(in);
  return r;
}
static word allocate(int kind, word to, word n) {
  void *p = 0;
  if (posix_memalign(&p, 256, n ? n : 1)) return NO_MEMORY;
  if (kind == HOST) memset(p, 0, n); // tests look for what was left in it
  SET(word, to, (word)p);
  return more(kind);
}
FN(cuMemAlloc_v2) { NOTHING; return allocate(DEVICE, a, b); }
FN(cuMemFree_v2) { NOTHING; free((void *)a); return less(DEVICE); }
FN(cuMemAllocHost_v2) { NOTHING; return allocate(HOST, a, b); }
FN(cuMemHostAlloc) {
  NOTHING;
  word r = allocate(HOST, a, b);
  pthread_mutex_lock(&lock);
  if (!r && (long)b == ctl->size && mappings < 64) mapping[mappings++] = *(void **)a;
  pthread_mutex_unlock(&lock);
  return r;
}
FN(cuMemHostGetDevicePointer_v2) { NOTHING; SET(word, a, b); return 0; }
FN(cuMemFreeHost) {
  NOTHING;
  pthread_mutex_lock(&lock);
  for (int n = 0; n < mappings; n++)
    if (mapping[n] == (void *)a) mapping[n] = mapping[--mappings];
  pthread_mutex_unlock(&lock);
  free((void *)a);
  return less(HOST);
}
FN(cuMemcpyHtoDAsync_v2) { NOTHING; memcpy((void *)a, (void *)b, c); __atomic_add_fetch(&live[COPIED], (int)c, __ATOMIC_SEQ_CST); return 0; }
FN(cuMemcpyDtoDAsync_v2) { NOTHING; memmove((void *)a, (void *)b, c); return 0; }
FN(cuMemcpyDtoHAsync_v2) {
  NOTHING;
  memcpy((void *)a, (void *)b, c);
  return (long)c == ctl->size ? answer(ctl, (void *)a) : 0;
}
FN(cuMemsetD32Async) {
  NOTHING;
  for (word n = 0; n < c; n++) ((uint32_t *)a)[n] = (uint32_t)b;
  return 0;
}
FN(cuMemsetD8Async) { NOTHING; memset((void *)a, (int)b, c); return 0; }
FN(cuStreamCreate) {
  NOTHING;
  static word last = 15;
  SET(word, a, __atomic_add_fetch(&last, 1, __ATOMIC_SEQ_CST));
  return more(STREAMS);
}
FN(cuStreamDestroy_v2) { NOTHING; return less(STREAMS); }
FN(cuStreamSynchronize) {
  NOTHING;
  word r = 0;
  pthread_mutex_lock(&lock);
  for (int n = 0; n < mappings; n++) r |= answer(ctl, mapping[n]);
  pthread_mutex_unlock(&lock);
  return r;
}
struct event { struct timespec at; int launches, gone; }; // stays when it is gone, to be known then
FN(cuEventCreate) { NOTHING; SET(word, a, (word)calloc(1, sizeof(struct event))); return more(EVENTS); }
FN(cuEventDestroy_v2) { NOTHING; ((struct event *)a)->gone = 1; return less(EVENTS); }
FN(cuEventRecord) {
  NOTHING;
  struct event *x = (struct event *)a;
  if (x->gone) return INVALID;
  clock_gettime(CLOCK_MONOTONIC, &x->at);
  x->launches = __atomic_load_n(&live[LAUNCHES], __ATOMIC_SEQ_CST) + __atomic_load_n(&live[GRAPH_LAUNCHES], __ATOMIC_SEQ_CST);
  return 0;
}
FN(cuEventSynchronize) { NOTHING; return 0; }
FN(cuEventElapsedTime) {
  NOTHING;
  struct event *x = (struct event *)b, *y = (struct event *)c;
  SET(float, a, (y->at.tv_sec - x->at.tv_sec) * 1e3f + (y->at.tv_nsec - x->at.tv_nsec) * 1e-6f);
  __atomic_store_n(&live[TIMED], y->launches - x->launches, __ATOMIC_SEQ_CST);
  return 0;
}
FN(cuLaunchKernel) { NOTHING; return more(LAUNCHES); }
FN(cuLaunchKernelEx) { NOTHING; return more(LAUNCHES); }
#ifdef WITH_GRAPHS
FN(cuGraphCreate) { NOTHING; SET(word, a, 5); return more(GRAPHS); }
FN(cuGraphDestroy) { NOTHING; return less(GRAPHS); }
FN(cuGraphAddKernelNode_v2) { NOTHING; SET(word, a, 6); return 0; }
FN(cuGraphAddDependencies_v2) { NOTHING; return 0; }
FN(cuGraphInstantiateWithFlags) { NOTHING; SET(word, a, 7); return more(EXECS); }
FN(cuGraphExecKernelNodeSetParams_v2) { NOTHING; return 0; }
FN(cuGraphExecDestroy) { NOTHING; return less(EXECS); }
FN(cuGraphLaunch) { NOTHING; return more(GRAPH_LAUNCHES); }
#endif
FN(cuGetErrorName) { NOTHING; SET(const char *, b, "CUDA_ERROR_OF_A_TEST"); return 0; }
FN(cuGetErrorString) { NOTHING; SET(const char *, b, "an error of a test"); return 0; }

// Entry points that this file does not know by name: they succeed and do nothing.
#define STUB(name) FN(name) { NOTHING; return 0; }
#include STUBS
