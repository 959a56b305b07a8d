// The execution of a grid: its blocks one after another, the threads of a block
// as fibers that change places at barriers and warp operations. The order of
// blocks and threads is EMULATE_ORDER: forward, backward, or a number that seeds
// a random one, another for every launch.
#include "emulator.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <sys/mman.h>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulate {

std::string fault;
Running running;
char* stacks;

namespace {

constexpr size_t stackBytes = 64 << 10;
constexpr unsigned maxThreads = 1024;

// A context is where a fiber goes on.
#ifdef __x86_64__
typedef void* Context;
extern "C" void emulate_change(Context* save, Context to);
asm(R"(
.text
.globl emulate_change
.hidden emulate_change
.type emulate_change, @function
emulate_change:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulate_change, .-emulate_change
)");
void change(Context& save, Context& to) { emulate_change(&save, to); }
void prepare(Context& c, char* stack, void (*f)()) {
  void** top = (void**)(stack + stackBytes - 64);
  *--top = nullptr;   // the return address of f, which never returns: alignment
  *--top = (void*)f;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  c = top;
}
#else
typedef ucontext_t Context;
void change(Context& save, Context& to) { swapcontext(&save, &to); }
void prepare(Context& c, char* stack, void (*f)()) {
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = stackBytes;
  c.uc_link = nullptr;
  makecontext(&c, f, 0);
}
#endif

enum State { READY, AT_BARRIER, IN_WARP, AT_ARRIVAL, EXITED };
enum Meeting { NONE, SYNC, SHUFFLE, VOTE, MMA };
const char* const meetingNames[] = {"nothing", "__syncwarp", "a shuffle", "a vote", "mma"};

struct Fiber {
  Context context;
  State state;
  Meeting meeting;
  uint3 index;
  bool announced, settled;
  int copies; // asynchronous, not waited for
};
struct Warp {
  unsigned meetings, arrived, lanes;
  unsigned gone;   // lanes that have ended or are at __syncthreads
  Meeting meeting; // of those that have arrived
  unsigned word[32][9];
};

Fiber fibers[maxThreads];
Warp warps[maxThreads / 32];
Context scheduler;
const Launch* launch;
unsigned now; // the running fiber
unsigned waiting, exited;
uint3 blockIndex;
Code failed;

struct Pending { char* to; const char* from; unsigned thread; };
std::vector<Pending> pending; // asynchronous copies of the block

// Arrival is an mbarrier of the block, Bulk a copy that one of its phases ends with.
// seen are the threads that waited for it; who has not may follow a barrier after one
// that did.
struct Arrival { uint64_t* at; unsigned phase; bool armed; };
struct Bulk {
  Arrival* arrival;
  char* to;
  const char* from;
  unsigned bytes, phase;
  bool done;
  std::vector<bool> seen;
};
std::deque<Arrival> arrivals;
std::vector<Bulk> bulks;

Arrival& arrivalOf(uint64_t* at) {
  for (Arrival& a : arrivals)
    if (a.at == at) return a;
  fail(LAUNCH_FAILED, __builtin_return_address(0), "an mbarrier that nothing initialised");
}

uint64_t randomState;
uint64_t random64() { // xorshift
  randomState ^= randomState << 13;
  randomState ^= randomState >> 7;
  return randomState ^= randomState << 17;
}

enum Order { FORWARD, BACKWARD, RANDOM };
Order order() {
  static const Order o = [] {
    const char* v = getenv("EMULATE_ORDER");
    if (!v || !*v || !strcmp(v, "forward")) return FORWARD;
    if (!strcmp(v, "backward")) return BACKWARD;
    randomState = strtoull(v, nullptr, 0) * 0x9e3779b97f4a7c15 | 1;
    return RANDOM;
  }();
  return o;
}

// arrange puts 0, ..., n-1 into the order that is asked for.
void arrange(std::vector<unsigned>& v, unsigned n) {
  v.resize(n);
  for (unsigned i = 0; i < n; i++) v[i] = order() == BACKWARD ? n - 1 - i : i;
  if (order() == RANDOM)
    for (unsigned i = n; i > 1; i--) std::swap(v[i - 1], v[random64() % i]);
}

void start() {
  launch->entry->call(launch->entry->kernel, launch->parameter);
  Fiber& f = fibers[now];
  if (launch->early && !f.settled) fail(LAUNCH_FAILED, nullptr, "ends without having waited for the kernels before (settle)");
  f.state = EXITED;
  warps[now / 32].gone |= 1u << (now & 31);
  exited++;
  change(f.context, scheduler);
  abort();
}

void yield(State s) {
  Fiber& f = fibers[now];
  f.state = s;
  change(f.context, scheduler);
}

// resume runs fiber t until it waits or ends.
void resume(unsigned t) {
  now = t;
  running.thread = t;
  running.meetings = warps[t / 32].meetings;
  running.settled = fibers[t].settled || !launch->early;
  change(scheduler, fibers[t].context);
}

// mismatch says which lane of a warp cannot take part in what the running one is at.
[[noreturn]] void mismatch(const Warp& w, Meeting what) {
  for (unsigned l = 0; l < 32; l++) {
    const Fiber& o = fibers[now / 32 * 32 + l];
    if (!(w.lanes >> l & 1)) continue;
    if (o.state == EXITED) fail(LAUNCH_FAILED, nullptr, "%s, but lane %u has ended", meetingNames[what], l);
    if (o.state == AT_BARRIER) fail(LAUNCH_FAILED, nullptr, "%s, but lane %u is at __syncthreads", meetingNames[what], l);
    if (o.state == IN_WARP && o.meeting != what) fail(LAUNCH_FAILED, nullptr, "%s, but lane %u is in %s", meetingNames[what], l, meetingNames[o.meeting]);
  }
  abort();
}

// meet brings the lanes of a warp together; true for the last one, which does what
// is to be done for all of them and lets the others go on (leave).
bool meet(Meeting what, unsigned mask) {
  Warp& w = warps[now / 32];
  if ((mask & w.lanes) != w.lanes) fail(LAUNCH_FAILED, nullptr, "%s with the mask %08x in a warp of lanes %08x", meetingNames[what], mask, w.lanes);
  if (w.gone || (w.arrived && w.meeting != what)) mismatch(w, what);
  fibers[now].meeting = w.meeting = what;
  w.arrived |= 1u << (now & 31);
  if (w.arrived != w.lanes) {
    yield(IN_WARP);
    return false;
  }
  return true;
}
void leave() {
  Warp& w = warps[now / 32];
  w.arrived = 0;
  for (unsigned l = 0; l < 32; l++)
    if (w.lanes >> l & 1) fibers[now / 32 * 32 + l].state = READY;
}

// oneBlock runs the block blockIndex.
void oneBlock() {
  static std::vector<unsigned> turn;
  const unsigned n = launch->threads;
  waiting = exited = 0;
  running.barriers = 0;
  running.block = blockIndex.y * launch->grid.x + blockIndex.x;
  pending.clear();
  arrivals.clear();
  bulks.clear();
  running.bulk = false;
  beginBlock();
  for (unsigned w = 0; w * 32 < n; w++) warps[w] = Warp{0, 0, n - w * 32 >= 32 ? ~0u : (1u << (n - w * 32)) - 1, 0, NONE, {}};
  for (unsigned t = 0; t < n; t++) {
    prepare(fibers[t].context, stacks + t * stackBytes, start);
    fibers[t].state = READY;
    fibers[t].index = {t, 0, 0};
    fibers[t].announced = fibers[t].settled = false;
    fibers[t].copies = 0;
  }
  arrange(turn, n);
  while (!failed && exited < n) {
    bool progress = false;
    for (unsigned t : turn) {
      if (fibers[t].state != READY) continue;
      progress = true;
      resume(t);
      if (failed) return;
    }
    if (waiting && waiting == n - exited) {
      if (exited) {
        char text[128];
        snprintf(text, sizeof text, "%s: block %u,%u: %u threads wait at __syncthreads, %u have ended", launch->entry->name, blockIndex.x, blockIndex.y, waiting, exited);
        fault = text;
        failed = LAUNCH_FAILED;
        return;
      }
      for (unsigned t = 0; t < n; t++) fibers[t].state = READY;
      for (unsigned w = 0; w * 32 < n; w++) warps[w].gone = 0;
      waiting = 0;
      running.barriers++;
      bulks.erase(std::remove_if(bulks.begin(), bulks.end(), [](const Bulk& b) { return b.done; }), bulks.end());
      running.bulk = !bulks.empty();
      progress = true;
    }
    if (!progress) {
      char text[160];
      snprintf(text, sizeof text, "%s: block %u,%u: threads wait for each other for ever: %u at __syncthreads, %u ended, the others in warp operations or at an mbarrier", launch->entry->name, blockIndex.x, blockIndex.y, waiting, exited);
      fault = text;
      failed = LAUNCH_FAILED;
    }
  }
  for (const Bulk& b : bulks)
    if (!b.done && !failed) {
      char text[160];
      snprintf(text, sizeof text, "%s: block %u,%u: ends while a bulk copy to its shared memory is under way", launch->entry->name, blockIndex.x, blockIndex.y);
      fault = text;
      failed = LAUNCH_FAILED;
    }
}

} // namespace

uint3 thread() { return fibers[now].index; }
uint3 block() { return blockIndex; }
uint3 threads() { return {launch->threads, 1, 1}; }
uint3 blocks() { return launch->grid; }

void barrier() {
  waiting++;
  warps[now / 32].gone |= 1u << (now & 31);
  yield(AT_BARRIER);
}

void warpBarrier(unsigned mask) {
  if (!meet(SYNC, mask)) return;
  running.meetings = ++warps[now / 32].meetings; // only this orders accesses to memory
  leave();
}

// The last lane to come computes the results of all, as the others may go on and
// meet again before a lane has looked at those of the others.
uint64_t shuffleXor(unsigned mask, uint64_t v, unsigned lane) {
  Warp& w = warps[now / 32];
  unsigned* mine = w.word[now & 31];
  memcpy(mine, &v, 8);
  mine[2] = lane & 31;
  if (meet(SHUFFLE, mask)) {
    for (unsigned l = 0; l < 32; l++) {
      const unsigned from = l ^ w.word[l][2];
      memcpy(w.word[l] + 3, w.word[w.lanes >> from & 1 ? from : l], 8);
    }
    leave();
  }
  memcpy(&v, mine + 3, 8);
  return v;
}

unsigned vote(unsigned mask, bool v) {
  Warp& w = warps[now / 32];
  unsigned* mine = w.word[now & 31];
  mine[0] = v;
  if (meet(VOTE, mask)) {
    unsigned r = 0;
    for (unsigned l = 0; l < 32; l++) r |= (w.lanes >> l & w.word[l][0] & 1) << l;
    for (unsigned l = 0; l < 32; l++) w.word[l][1] = r;
    leave();
  }
  return mine[1];
}

// mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 (PTX ISA, warp-level matrix
// instructions, fragments of mma.m16n8k32): with g = lane/4 and t = lane%4, byte i
// of register r of A is at row g + 8*(r%2), column 4*t + i + 16*(r/2); byte i of
// register r of B at row 4*t + i + 16*r, column g; register r of the sums at row
// g + 8*(r/2), column 2*t + r%2.
uint4 mma(uint4 sum, uint4 a, unsigned b0, unsigned b1) {
  if (CAPABILITY < 80) fail(LAUNCH_FAILED, nullptr, "mma of bytes, which compute capability %d.%d does not have", CAPABILITY / 10, CAPABILITY % 10);
  Warp& w = warps[now / 32];
  const unsigned in[9] = {a.x, a.y, a.z, a.w, b0, b1, 0, 0, 0};
  memcpy(w.word[now & 31], in, sizeof in);
  if (meet(MMA, ~0u)) {
    if (w.lanes != ~0u) fail(LAUNCH_FAILED, nullptr, "mma in a warp of lanes %08x", w.lanes);
    static short A[16][32], B[8][32];
    static int D[16][8];
    for (unsigned l = 0; l < 32; l++)
      for (unsigned r = 0; r < 6; r++)
        for (unsigned i = 0; i < 4; i++) {
          const short byte = w.word[l][r] >> (8 * i) & 0xff;
          if (r < 4) A[l / 4 + 8 * (r % 2)][4 * (l % 4) + i + 16 * (r / 2)] = byte;
          else B[l / 4][4 * (l % 4) + i + 16 * (r - 4)] = byte;
        }
    for (unsigned y = 0; y < 16; y++)
      for (unsigned x = 0; x < 8; x++) {
        int s = 0;
        for (unsigned k = 0; k < 32; k++) s += A[y][k] * B[x][k];
        D[y][x] = s;
      }
    for (unsigned l = 0; l < 32; l++)
      for (unsigned r = 0; r < 4; r++) w.word[l][5 + r] = D[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2];
    leave();
  }
  const unsigned* d = w.word[now & 31] + 5; // only this lane writes here until all meet again
  return make_uint4(sum.x + d[0], sum.y + d[1], sum.z + d[2], sum.w + d[3]);
}

void announce() { fibers[now].announced = true; }
void settle() { running.settled = fibers[now].settled = true; }

// copyAsync: the bytes arrive when the thread waits; until then both ends are in
// use.
void copyAsync(void* to, const void* from) {
  access(from, 16, false, false, __builtin_return_address(0));
  access(to, 16, true, false, __builtin_return_address(0));
  memset(to, 0xa5, 16);
  pending.push_back({(char*)to, (const char*)from, now});
  fibers[now].copies++;
}
void copied() {
  if (fibers[now].copies) {
    for (const Pending& p : pending)
      if (p.thread == now) memcpy(p.to, p.from, 16);
    pending.erase(std::remove_if(pending.begin(), pending.end(), [](const Pending& p) { return p.thread == now; }), pending.end());
    fibers[now].copies = 0;
  }
  barrier();
}

void arrivalInit(uint64_t* at) {
  access(at, 8, true, false, __builtin_return_address(0));
  arrivals.push_back({at, 0, false});
}
// arrivalCopy: the bytes arrive when the first thread waits for them.
void arrivalCopy(uint64_t* at, void* to, const void* from, unsigned bytes) {
  const void* here = __builtin_return_address(0);
  if (CAPABILITY < 90) fail(LAUNCH_FAILED, here, "a bulk copy, which compute capability %d.%d does not have", CAPABILITY / 10, CAPABILITY % 10);
  access(at, 8, true, true, here);
  Arrival& a = arrivalOf(at);
  if (a.armed) fail(LAUNCH_FAILED, here, "a second arrival in a phase of an mbarrier for one");
  if ((uintptr_t)to % 16 || (uintptr_t)from % 16 || bytes % 16 || !bytes || bytes >= 1 << 20)
    fail(MISALIGNED, here, "a bulk copy of %u bytes from %p to %p: multiples of 16 below 2^20 it takes", bytes, from, to);
  access(from, bytes, false, false, here);
  access(to, bytes, true, false, here);
  bulkStored(to, bytes);
  memset(to, 0xa5, bytes);
  a.armed = true;
  bulks.push_back({&a, (char*)to, (const char*)from, bytes, a.phase, false, std::vector<bool>(launch->threads)});
  running.bulk = true;
  for (unsigned t = 0; t < launch->threads; t++)
    if (fibers[t].state == AT_ARRIVAL) fibers[t].state = READY; // and look again
}
void arrivalWait(uint64_t* at, unsigned parity) {
  access(at, 8, false, true, __builtin_return_address(0));
  Arrival& a = arrivalOf(at);
  while ((a.phase & 1) == parity && !a.armed) yield(AT_ARRIVAL);
  if ((a.phase & 1) == parity) {
    for (Bulk& b : bulks)
      if (b.arrival == &a && b.phase == a.phase) {
        memcpy(b.to, b.from, b.bytes);
        b.done = true;
      }
    a.armed = false;
    a.phase++;
  }
  for (Bulk& b : bulks)
    if (b.arrival == &a && b.done) b.seen[now] = true;
}
void bulkConflict(const char* p, unsigned bytes, bool write, const void* from) {
  for (const Bulk& b : bulks)
    if (p < b.to + b.bytes && b.to < p + bytes && !b.seen[now])
      fail(LAUNCH_FAILED, from, "%s of shared memory that a bulk copy writes, without a wait for it", write ? "store" : "load");
}

unsigned atomicAdd(unsigned* at, unsigned v) {
  access(at, 4, true, true, __builtin_return_address(0));
  const unsigned old = *at;
  *at = old + v;
  return old;
}

void range(const char* file, int line, const char* what, uint64_t value, uint64_t bound) {
  if (const char* name = strrchr(file, '/')) file = name + 1;
  fail(LAUNCH_FAILED, __builtin_return_address(0), "%s:%d: %s is %llu, not below %llu", file, line, what, (unsigned long long)value, (unsigned long long)bound);
}

void fail(Code code, const void* at, const char* format, ...) {
  char text[512], where[160];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  snprintf(where, sizeof where, "%s: block %u,%u thread %u: ", launch->entry->name, blockIndex.x, blockIndex.y, now);
  fault = where + std::string(text) + (at ? placeOf(at) : "");
  failed = code;
  change(fibers[now].context, scheduler);
  abort();
}

const size_t stackSpace = maxThreads * stackBytes;

Code run(const Launch& l) {
  static std::vector<unsigned> turn;
  static std::vector<uint3> all;
  if (!stacks) {
    stacks = (char*)mmap(nullptr, stackSpace, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    attach();
  }
  launch = &l;
  failed = OK;
  running.early = l.early;
  running.stream = l.stream;
  running.shared = l.shared;
  beginLaunch(l.stream);
  arrange(turn, l.grid.x * l.grid.y);
  for (unsigned b : turn) {
    blockIndex = {b % l.grid.x, b / l.grid.x, 0};
    oneBlock();
    if (failed) {
      fprintf(stderr, "emulator: %s\n", fault.c_str());
      return failed;
    }
  }
  return OK;
}

} // namespace emulate
