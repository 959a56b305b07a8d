// The entry points of libcuda.so.1 that hencedge binds, over the emulator. Work in
// a stream waits until someone asks for it (EMULATE_STREAMS=late), so that a host
// that reuses memory too early computes wrong results, or is done at once.
#include "emulator.h"
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <time.h>
#include <unordered_map>
#include <vector>

namespace emulate {
namespace {

Entry* entries;
std::mutex lock; // of all that follows
Code sticky;     // what the context failed with

struct Event { bool pending = false; unsigned stream = 0; timespec at{}; };
struct Op {
  enum Kind { LAUNCH, COPY, FILL, RECORD } kind;
  Launch launch;
  char *to, *from;
  std::vector<char> bytes; // of memory that is not pinned
  size_t n;
  unsigned value;
  Event* event;
};
struct Stream { bool live = true; std::deque<Op> ops; };
std::vector<Stream> streams(1); // by number; 0 is the default stream
std::map<char*, bool> pinned;
std::unordered_map<const Entry*, unsigned> allowed; // dynamic shared memory

bool late() {
  static const bool v = [] { const char* s = getenv("EMULATE_STREAMS"); return s && !strcmp(s, "late"); }();
  return v;
}

// The worker is the thread that runs kernels: it takes no signals, so that no
// handler of the Go runtime meets the stack of a fiber.
std::mutex work;
std::condition_variable changed;
const Launch* wanted;
Code result;
void* worker(void*) {
  std::unique_lock<std::mutex> held(work);
  for (;;) {
    changed.wait(held, [] { return wanted; });
    result = run(*wanted);
    wanted = nullptr;
    changed.notify_all();
  }
}
Code perform(const Launch& l) {
  static bool started;
  std::unique_lock<std::mutex> held(work);
  if (!started) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t t;
    pthread_create(&t, nullptr, worker, nullptr);
    pthread_detach(t);
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    started = true;
  }
  wanted = &l;
  changed.notify_all();
  changed.wait(held, [] { return !wanted; });
  return result;
}

Code refuse(Code c, const char* what) {
  fault = what;
  fprintf(stderr, "emulator: %s\n", what);
  return c;
}

// note writes the name of a kernel to the file that EMULATE_LAUNCHED names, once.
void note(const Entry* e) {
  static const char* const path = getenv("EMULATE_LAUNCHED");
  static std::unordered_map<const Entry*, bool> seen;
  if (!path || !*path || seen[e]) return;
  seen[e] = true;
  if (FILE* f = fopen(path, "a")) {
    fprintf(f, "%s\n", e->name);
    fclose(f);
  }
}

Code perform(Op& o, unsigned stream) {
  if (o.kind == Op::LAUNCH) {
    note(o.launch.entry);
    return perform(o.launch);
  }
  if (o.kind == Op::RECORD) {
    o.event->pending = false;
    clock_gettime(CLOCK_MONOTONIC, &o.event->at);
    return OK;
  }
  separated(stream);
  if (o.kind == Op::FILL) {
    if (!addressable(o.to, 4 * o.n)) return refuse(ILLEGAL_ADDRESS, "a fill of what is not in the device's memory");
    for (size_t i = 0; i < o.n; i++) ((unsigned*)o.to)[i] = o.value;
    written(o.to, 4 * o.n);
    return OK;
  }
  const char* from = o.bytes.empty() ? o.from : o.bytes.data();
  if (o.bytes.empty() && (!addressable(from, o.n) || !initialised(from, o.n))) return refuse(ILLEGAL_ADDRESS, "a copy from memory of the device that is not there, or that nothing was written to");
  memmove(o.to, from, o.n);
  if (addressable(o.to, o.n)) written(o.to, o.n);
  return OK;
}

// drain does the work of a stream up to event, or all.
Code drain(unsigned s, Event* until = nullptr) {
  while (!streams[s].ops.empty()) {
    Op o = std::move(streams[s].ops.front());
    streams[s].ops.pop_front();
    if (Code c = sticky ? sticky : perform(o, s)) {
      sticky = c;
      if (o.kind == Op::RECORD) o.event->pending = false;
    }
    if (until && o.kind == Op::RECORD && o.event == until) break;
  }
  finished(s);
  return sticky;
}
Code drainAll() {
  for (unsigned s = 0; s < streams.size(); s++) drain(s);
  return sticky;
}

Code queue(unsigned s, Op o) {
  if (sticky) return sticky;
  if (s >= streams.size() || !streams[s].live) return INVALID;
  streams[s].ops.push_back(std::move(o));
  if (late()) return OK;
  while (!streams[s].ops.empty()) {
    Op next = std::move(streams[s].ops.front());
    streams[s].ops.pop_front();
    if (Code c = perform(next, s)) sticky = c;
  }
  return OK; // as on a device, later calls report it
}

// device is what the environment makes of the device: the library is compiled for
// one branch of the sources, which more than one capability takes.
unsigned capability() {
  const char* v = getenv("EMULATE_CAPABILITY");
  return v ? atoi(v) : CAPABILITY;
}

// sharedMemory is what a block may use, in bytes.
int sharedMemory() {
  if (const char* v = getenv("EMULATE_SHARED")) return atoi(v) << 10;
  switch (capability()) {
    case 72: return 96 << 10;
    case 86: case 89: return 99 << 10;
    default: return (capability() >= 90 ? 227 : 163) << 10;
  }
}

// devices is how many there are: names of one, with one memory, which fail together.
int devices() {
  const char* v = getenv("EMULATE_DEVICES");
  return v ? atoi(v) : 1;
}

struct Locked {
  std::lock_guard<std::mutex> held{lock};
};

// stale ends the process: a handle that is none, perhaps of a context that was
// reset, makes a real driver crash, or meets what lies there now.
void stale(const char* call, uintptr_t handle) {
  fprintf(stderr, "emulated GPU: %s of %#lx, which does not exist (any more)\n", call, (unsigned long)handle);
  abort();
}
void exists(const char* call, uintptr_t stream) {
  if (stream >= streams.size() || !streams[stream].live) stale(call, stream);
}

} // namespace

void Entry::add() {
  next = entries;
  entries = this;
}

std::string placeOf(const void* at) {
  Dl_info info;
  if (!dladdr(at, &info)) return "";
  char command[512], line[400];
  snprintf(command, sizeof command, "addr2line -i -e '%s' %#lx 2>/dev/null", info.dli_fname, (unsigned long)((char*)at - (char*)info.dli_fbase - 1));
  std::string s;
  if (FILE* f = popen(command, "r")) {
    while (fgets(line, sizeof line, f)) {
      const char* name = strrchr(line, '/');
      std::string l(name ? name + 1 : line);
      while (!l.empty() && (l.back() == '\n')) l.pop_back();
      if (const size_t d = l.find(" (disc"); d != std::string::npos) l.resize(d);
      if (l.find("cuda.h:") == std::string::npos && l.find('?') == std::string::npos) s += (s.empty() ? " at " : ", from ") + l;
    }
    pclose(f);
  }
  return s;
}
} // namespace emulate

using namespace emulate;
typedef uintptr_t word;
#define API extern "C" __attribute__((visibility("default"))) int
#define CONTEXT Locked locked; if (sticky) return sticky

API cuInit(unsigned) { return OK; }
API cuDriverGetVersion(int* v) { *v = 12040; return OK; }
API cuDeviceGetCount(int* n) { *n = devices(); return OK; }
API cuDeviceGet(int* d, int n) { *d = n; return n >= 0 && n < devices() ? OK : 101; }
API cuDeviceGetName(char* s, int n, int) { snprintf(s, n, "emulated GPU (no hardware, for tests)"); return OK; }
API cuDeviceGetUuid(char* u, int d) { memset(u, 0xee - d, 16); return OK; }
API cuDeviceTotalMem_v2(size_t* n, int) { *n = 4ull << 30; return OK; }
API cuDeviceGetAttribute(int* v, int a, int) {
  switch (a) {
    case 16: *v = 4; break;
    case 18: *v = capability() == 72 || capability() == 87; break; // integrated
    case 19: case 41: *v = 1; break;                               // mapped memory, unified addressing
    case 38: *v = 4 << 20; break;
    case 39: *v = 2048; break;
    case 75: *v = capability() / 10; break;
    case 76: *v = capability() % 10; break;
    case 97: *v = sharedMemory(); break;
    default: *v = 0;
  }
  return OK;
}
API cuDevicePrimaryCtxRetain(word* c, int d) { Locked l; *c = 1 + d; return sticky; }
API cuDevicePrimaryCtxReset_v2(int) {
  Locked l;
  for (Stream& s : streams) s.ops.clear(), s.live = &s == &streams[0];
  for (unsigned s = 0; s < streams.size(); s++) finished(s);
  releaseAll();
  sticky = OK;
  return OK;
}
API cuCtxSetCurrent(word) { CONTEXT; return OK; }

// A fatbin is a header and entries; of each, kind (2: machine code, 1: PTX),
// header and data size, and the architecture. The driver takes machine code of the
// same major version and at most the same minor one, or else older PTX.
API cuModuleLoadData(word* m, const char* image) {
  CONTEXT;
  unsigned magic;
  uint16_t header;
  uint64_t size;
  if (!strncmp(image, ".version", 8)) return *m = 0, OK; // PTX: see unknown
  memcpy(&magic, image, 4), memcpy(&header, image + 6, 2), memcpy(&size, image + 8, 8);
  if (magic != 0xba55ed50) return 200; // CUDA_ERROR_INVALID_IMAGE
  const unsigned have = capability();
  for (const char *p = image + header, *end = p + size; p < end;) {
    uint16_t kind;
    uint32_t head, arch;
    uint64_t data;
    memcpy(&kind, p, 2), memcpy(&head, p + 4, 4), memcpy(&data, p + 8, 8), memcpy(&arch, p + 28, 4);
    if (kind == 2 ? arch / 10 == have / 10 && arch <= have : arch <= have) {
      *m = (word)image;
      return OK;
    }
    p += head + data;
  }
  return 209; // CUDA_ERROR_NO_BINARY_FOR_GPU
}
// unknown stands for every kernel that comes as PTX: it cannot run.
struct Nothing {};
static void cannot(Nothing) { fail(Code(715), nullptr, "a kernel of PTX, which the emulator cannot run"); }
static Entry unknown("PTX", cannot, 1024);
API cuModuleGetFunction(word* f, word m, const char* name) {
  CONTEXT;
  if (!m) return *f = (word)&unknown, OK;
  for (Entry* e = entries; e; e = e->next)
    if (!strcmp(e->name, name)) return *f = (word)e, OK;
  return 500;
}
API cuFuncSetAttribute(word f, int a, int v) {
  CONTEXT;
  if (a != 8 || v < 0 || v > sharedMemory()) return INVALID;
  allowed[(Entry*)f] = v;
  return OK;
}
API cuFuncGetAttribute(int* v, int a, word f) {
  CONTEXT;
  *v = a == 0 ? ((Entry*)f)->threads : a == 4 ? 64 : a == 6 ? capability() : 0;
  return OK;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, word, int threads, size_t) { *n = std::max(1, 2048 / std::max(threads, 1)); return OK; }

API cuMemAlloc_v2(word* p, size_t n) {
  CONTEXT;
  if (!n) return INVALID;
  *p = (word)allocate(n, false);
  return *p ? OK : NO_MEMORY;
}
API cuMemFree_v2(word p) {
  Locked l;
  drainAll();
  if (!release((char*)p)) stale("cuMemFree", p);
  return sticky;
}
static int host(word* p, size_t n) {
  if (!n) return INVALID;
  *p = (word)allocate(n, true);
  if (!*p) return NO_MEMORY;
  pinned[(char*)*p] = true;
  return OK;
}
API cuMemAllocHost_v2(word* p, size_t n) { CONTEXT; return host(p, n); }
API cuMemHostAlloc(word* p, size_t n, unsigned) { CONTEXT; return host(p, n); }
API cuMemHostGetDevicePointer_v2(word* d, word h, unsigned) { CONTEXT; *d = h; return OK; }
API cuMemFreeHost(word p) {
  Locked l;
  drainAll();
  if (!pinned.erase((char*)p) || !release((char*)p)) stale("cuMemFreeHost", p);
  return sticky;
}

static bool isPinned(const char* p, size_t n) {
  const auto it = pinned.upper_bound((char*)p);
  return it != pinned.begin() && addressable(p, n);
}
API cuMemcpyHtoDAsync_v2(word to, const char* from, size_t n, word stream) {
  CONTEXT;
  if (!addressable((char*)to, n)) return INVALID;
  Op o{Op::COPY, {}, (char*)to, (char*)from, {}, n, 0, nullptr};
  if (!isPinned(from, n)) o.bytes.assign(from, from + n);
  return queue(stream, std::move(o));
}
API cuMemcpyDtoHAsync_v2(char* to, word from, size_t n, word stream) {
  CONTEXT;
  if (!addressable((char*)from, n)) return INVALID;
  const int c = queue(stream, Op{Op::COPY, {}, to, (char*)from, {}, n, 0, nullptr});
  return c || isPinned(to, n) ? c : drain(stream);
}
API cuMemsetD32Async(word to, unsigned v, size_t n, word stream) {
  CONTEXT;
  if (!addressable((char*)to, 4 * n) || to % 4) return INVALID;
  return queue(stream, Op{Op::FILL, {}, (char*)to, nullptr, {}, n, v, nullptr});
}

API cuStreamCreate(word* s, unsigned) {
  CONTEXT;
  streams.emplace_back();
  *s = streams.size() - 1;
  return OK;
}
API cuStreamDestroy_v2(word s) {
  Locked l;
  exists("cuStreamDestroy", s);
  drain(s);
  streams[s].live = false;
  return sticky;
}
API cuStreamSynchronize(word s) {
  CONTEXT;
  exists("cuStreamSynchronize", s);
  return drain(s);
}
API cuEventCreate(word* e, unsigned) { CONTEXT; *e = (word) new Event; return OK; }
API cuEventDestroy_v2(word e) {
  Locked l;
  if (((Event*)e)->pending) drain(((Event*)e)->stream);
  delete (Event*)e;
  return sticky;
}
API cuEventRecord(word e, word s) {
  CONTEXT;
  Event* v = (Event*)e;
  v->pending = true;
  v->stream = s;
  return queue(s, Op{Op::RECORD, {}, nullptr, nullptr, {}, 0, 0, v});
}
API cuEventSynchronize(word e) {
  CONTEXT;
  if (((Event*)e)->pending) drain(((Event*)e)->stream, (Event*)e);
  return sticky;
}
API cuEventElapsedTime(float* ms, word a, word b) {
  CONTEXT;
  Event *x = (Event*)a, *y = (Event*)b;
  if (x->pending || y->pending) return 600; // not ready
  *ms = (y->at.tv_sec - x->at.tv_sec) * 1e3f + (y->at.tv_nsec - x->at.tv_nsec) * 1e-6f;
  return OK;
}

static int launchable(Entry* e, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared) {
  int most = std::min(48 << 10, sharedMemory());
  if (allowed.count(e)) most = std::max(most, (int)allowed[e]);
  if (!x || !y || z != 1 || y > 65535 || !threads || ty != 1 || tz != 1 || threads > 1024 || shared > (unsigned)most) return INVALID;
  return threads > e->threads ? 701 : OK; // more than __launch_bounds__ promised
}
static int launchOf(word f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared, word stream, void** params, bool early) {
  Entry* e = (Entry*)f;
  if (const int c = launchable(e, x, y, z, threads, ty, tz, shared)) return c;
  Op o{Op::LAUNCH, {e, {x, y, 1}, threads, shared, early, (unsigned)stream, {}}, nullptr, nullptr, {}, 0, 0, nullptr};
  if (e != &unknown) memcpy(o.launch.parameter, params[0], e->bytes);
  return queue(stream, std::move(o));
}
API cuLaunchKernel(word f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, word stream, void** params, void**) {
  CONTEXT;
  return launchOf(f, x, y, z, tx, ty, tz, shared, stream, params, false);
}
struct Attribute { unsigned id, pad, value[16]; };
struct Config { unsigned x, y, z, tx, ty, tz, shared; word stream; Attribute* attributes; unsigned count; };
API cuLaunchKernelEx(const Config* c, word f, void** params, void**) {
  CONTEXT;
  bool early = false;
  for (unsigned i = 0; i < c->count; i++) early = early || (c->attributes[i].id == 6 && c->attributes[i].value[0]);
  return launchOf(f, c->x, c->y, c->z, c->tx, c->ty, c->tz, c->shared, c->stream, params, early && CAPABILITY >= 90);
}
// A graph is a chain of kernels; its executable form has parameters of its own.
struct Graph { std::deque<Op> nodes; };
struct NodeParams { word f; unsigned x, y, z, tx, ty, tz, shared; void** params; void** extra; word kernel, context; };
struct Edge { unsigned char from, to, type, reserved[5]; };
static std::map<word, Graph> graphs;              // and executable ones
static std::map<word, std::pair<word, unsigned>> nodes; // of a node, its graph and number
static std::map<word, word> madeFrom;              // of an executable graph, the graph
static word handles = 1 << 20;
API cuGraphCreate(word* g, unsigned flags) {
  CONTEXT;
  if (flags) return INVALID;
  graphs[*g = ++handles];
  return OK;
}
API cuGraphDestroy(word g) {
  Locked l;
  return graphs.erase(g) ? OK : INVALID;
}
API cuGraphExecDestroy(word g) {
  Locked l;
  madeFrom.erase(g);
  return graphs.erase(g) ? OK : INVALID;
}
static int fill(Op& o, const NodeParams* p) {
  Entry* e = (Entry*)p->f;
  if (const int c = launchable(e, p->x, p->y, p->z, p->tx, p->ty, p->tz, p->shared)) return c;
  const bool early = o.launch.early;
  o = Op{Op::LAUNCH, {e, {p->x, p->y, 1}, p->tx, p->shared, early, 0, {}}, nullptr, nullptr, {}, 0, 0, nullptr};
  if (e != &unknown) memcpy(o.launch.parameter, p->params[0], e->bytes);
  return OK;
}
API cuGraphAddKernelNode_v2(word* n, word g, const word*, size_t dependencies, const NodeParams* p) {
  CONTEXT;
  if (!graphs.count(g) || dependencies) return INVALID;
  Op o{};
  if (const int c = fill(o, p)) return c;
  graphs[g].nodes.push_back(std::move(o));
  nodes[*n = ++handles] = {g, (unsigned)graphs[g].nodes.size() - 1};
  return OK;
}
API cuGraphAddDependencies_v2(word g, const word* from, const word* to, const Edge* edge, size_t n) {
  CONTEXT;
  for (size_t i = 0; i < n; i++) { // each node after the one that was added before it
    if (!nodes.count(from[i]) || !nodes.count(to[i]) || nodes[from[i]].first != g || nodes[to[i]].first != g || nodes[from[i]].second + 1 != nodes[to[i]].second) return INVALID;
    if (edge[i].type > 1 || edge[i].from != edge[i].type || edge[i].to) return INVALID;
    Op& o = graphs[g].nodes[nodes[to[i]].second];
    if (o.n++) return INVALID; // n counts the edges
    o.launch.early = edge[i].type == 1 && CAPABILITY >= 90;
  }
  return OK;
}
API cuGraphInstantiateWithFlags(word* e, word g, unsigned long long flags) {
  CONTEXT;
  if (!graphs.count(g) || flags) return INVALID;
  for (size_t i = 1; i < graphs[g].nodes.size(); i++)
    if (!graphs[g].nodes[i].n) return INVALID; // kernels side by side: none of ours are
  Graph copy = graphs[g];
  graphs[*e = ++handles] = std::move(copy);
  madeFrom[*e] = g;
  return OK;
}
API cuGraphExecKernelNodeSetParams_v2(word e, word n, const NodeParams* p) {
  CONTEXT;
  if (!graphs.count(e) || !nodes.count(n) || madeFrom[e] != nodes[n].first) return INVALID;
  Op& o = graphs[e].nodes[nodes[n].second];
  if ((word)o.launch.entry != p->f) return INVALID;
  return fill(o, p);
}
API cuGraphLaunch(word e, word stream) {
  CONTEXT;
  if (!madeFrom.count(e)) return INVALID;
  for (const Op& node : graphs[e].nodes) {
    Op o = node;
    o.launch.stream = stream;
    if (const int c = queue(stream, std::move(o))) return c;
  }
  return OK;
}
API cuGetErrorName(int code, const char** s) {
  switch (code) {
    case INVALID: *s = "CUDA_ERROR_INVALID_VALUE"; break;
    case NO_MEMORY: *s = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case ILLEGAL_ADDRESS: *s = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case MISALIGNED: *s = "CUDA_ERROR_MISALIGNED_ADDRESS"; break;
    case LAUNCH_FAILED: *s = "CUDA_ERROR_LAUNCH_FAILED"; break;
    default: *s = "an error of the emulator";
  }
  return OK;
}
API cuGetErrorString(int code, const char** s) {
  static std::string text;
  Locked l;
  text = code == sticky && code ? "emulated: " + fault : "emulated: refused";
  *s = text.c_str();
  return OK;
}

// What g++ calls where code has no meaning in C++, with the place first.
struct Place { const char* file; unsigned line, column; };
#define UNDEFINED(name, what)                                                                                                     \
  extern "C" void __ubsan_handle_##name(Place* p, ...) { const char* n = strrchr(p->file, '/'); fail(LAUNCH_FAILED, __builtin_return_address(0), "%s:%u: %s", n ? n + 1 : p->file, p->line, what); }
UNDEFINED(shift_out_of_bounds, "a shift by more than the width")
UNDEFINED(out_of_bounds, "an index outside of its array")
UNDEFINED(divrem_overflow, "a division by 0")
UNDEFINED(float_cast_overflow, "a float that does not fit the integer")
UNDEFINED(type_mismatch_v1, "a misaligned vector")
UNDEFINED(add_overflow, "a signed sum that overflows")
UNDEFINED(sub_overflow, "a signed difference that overflows")
UNDEFINED(mul_overflow, "a signed product that overflows")
UNDEFINED(negate_overflow, "a negation that overflows")
