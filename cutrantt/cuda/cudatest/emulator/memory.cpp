// The memory of the device and what is known of each word of it: the compiler
// calls the functions at the end of this file before every load and store of the
// kernels (-fsanitize=thread, with this file in the place of its library).
//
// Of each byte it is known whether it is allocated and was ever written, of each
// word by which thread of which launch it was last written and read. Two accesses
// to a byte, one of them a store, are a race
//
//   - in one launch, from different blocks;
//   - in one block, from different threads without __syncthreads between them, or
//     __syncwarp if both are of one warp;
//   - from launches of different streams, without that the host has waited;
//   - of a programmatic launch before it waits (settle), with a kernel before it.
//
// Whatever the order in which threads happen to run, such a pair is found, if both
// accesses are made.
#include "emulator.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

// Dynamic shared memory, by the names that the kernels give it.
constexpr size_t mostShared = 227 << 10;
thread_local uint32_t shared[mostShared / 4] __attribute__((aligned(128)));
thread_local uint4 groups[mostShared / 16] __attribute__((aligned(128)));

namespace emulate {
namespace {

constexpr size_t space = 1ull << 36, margin = 4096; // addresses, and between allocations
char* base;
size_t top, inUse;
struct Area { size_t bytes; bool host, live; };
std::map<char*, Area> areas;
std::multimap<size_t, char*> freed;

// An access, in 64 bits: of the device's memory launch:20 block:18 thread:11
// barriers:5 meetings:6 mask:4, of shared memory block:22 barriers:10 meetings:17 thread:11
// mask:4. 0 is none; mask says which bytes of the word.
typedef uint64_t Access;
struct Word { Access store, load; };
uint8_t* state; // of each word: allocated bytes in the low half, written ones in the high one
Word* words;

struct SharedWord { Access store, load; };
std::vector<SharedWord> sharedWords;
std::vector<uint16_t> owner; // of each word of thread-local storage: 0 nobody, 1 dynamic, 2 and up a variable
char* tls;
size_t tlsBytes;
uint32_t blockNumber, launchNumber;

struct StreamState { uint32_t known, separated; };
std::vector<StreamState> streams;    // by number: the last launch that the host waited for, and what none overlaps
std::vector<unsigned> streamOf(1 << 20); // of launches

char* reserve(size_t n) {
  void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    perror("emulator: no address space");
    abort();
  }
  return (char*)p;
}

void prepare() {
  if (base) return;
  base = reserve(space);
  state = (uint8_t*)reserve(space / 4);
  words = (Word*)reserve(space / 4 * sizeof(Word));
  top = margin;
}

size_t limit() {
  static const size_t n = [] {
    const char* v = getenv("EMULATE_MEMORY"); // MiB
    return (size_t)(v ? strtoull(v, nullptr, 0) : 4096) << 20;
  }();
  return n;
}

// mark sets what is known of bytes [at, at+n).
void mark(char* at, size_t n, uint8_t clear, uint8_t set) {
  size_t i = at - base, end = i + n;
  for (; i < end; i = (i | 3) + 1) {
    uint8_t m = 0;
    for (size_t b = i; b < end && b <= (i | 3); b++) m |= 0x11 << (b & 3);
    state[i / 4] = (state[i / 4] & ~(m & clear)) | (m & set);
  }
}

const char* kind(bool write) { return write ? "store" : "load"; }

[[noreturn]] void outside(const char* p, unsigned bytes, bool write, const void* from) {
  if (p >= base && p < base + space) {
    auto it = areas.upper_bound((char*)p);
    if (it != areas.begin()) {
      --it;
      fail(ILLEGAL_ADDRESS, from, "%s of %u bytes at %td of %s of %zu bytes", kind(write), bytes, p - it->first,
           it->second.live ? "an allocation" : "memory given back", it->second.bytes);
    }
  }
  fail(ILLEGAL_ADDRESS, from, "%s of %u bytes at %p, which is no memory of the device", kind(write), bytes, (const void*)p);
}

// What an access calls its thread: 0 to 1023, or several threads that loaded, of a
// warp or of more, any that did it atomically, or the copy engine (see bulkConflict).
constexpr unsigned several = 0x7ff, severalOfWarp = 0x400, atomicThread = 0x7fe, bulkThread = 0x7fd;

const char* who(unsigned thread) {
  static char text[64];
  if (thread == several || thread == atomicThread) return "other threads";
  if (thread >= severalOfWarp) snprintf(text, sizeof text, "threads of warp %u", thread - severalOfWarp);
  else snprintf(text, sizeof text, "thread %u", thread);
  return text;
}
unsigned warpOf(unsigned thread) { return thread < severalOfWarp ? thread / 32 : thread < severalOfWarp + 32 ? thread - severalOfWarp : ~0u; }

// together: an earlier access of the block, by thread, is not ordered before one of
// the running thread. Numbers of barriers and meetings of that and of this one.
bool together(unsigned b, unsigned barriers, unsigned m, unsigned meetings, unsigned thread, bool atomic) {
  if (b != barriers || thread == running.thread || thread == bulkThread || (atomic && thread == atomicThread)) return false;
  return warpOf(thread) != running.thread / 32 || m == meetings;
}

// merged is whom a load counts for, after one by thread before: since the same
// barrier, since the same meeting of the warp.
unsigned merged(unsigned thread, bool barrier, bool meeting, bool atomic) {
  const unsigned mine = atomic ? atomicThread : running.thread;
  if (!barrier || thread == mine) return mine;
  if (warpOf(thread) != running.thread / 32) return several;
  return meeting || thread >= severalOfWarp ? severalOfWarp + running.thread / 32 : mine;
}

// global and inShared are inlined into each function that the compiler calls, where the
// size and the kind of access are constants.
#define INLINE inline __attribute__((always_inline))
INLINE void global(const char* p, unsigned bytes, bool write, bool atomic, const void* from) {
  const size_t at = (uintptr_t)p - (uintptr_t)__builtin_assume_aligned(base, 4096);
  const Running& r = running;
  const Access epoch = (r.barriers & 31) << 10 | (r.meetings & 63) << 4;
  const Access mine = (Access)r.launch << 44 | (Access)(r.block & 0x3ffff) << 26 | (Access)(atomic ? atomicThread : r.thread) << 15 | epoch;
  for (unsigned done = 0; done < bytes;) {
    const size_t w = (at + done) / 4;
    const unsigned first = (at + done) & 3, n = std::min(4 - first, bytes - done), mask = ((1u << n) - 1) << first;
    done += n;
    uint8_t& s = state[w];
    if ((s & mask) != mask) outside(p, bytes, write, from);
    if (!write && (s >> 4 & mask) != mask) fail(LAUNCH_FAILED, from, "load of memory that nothing was written to");
    Word& x = words[w];
    // before: an earlier access of the byte that this one must not meet.
    const auto before = [&](Access a, const char* what) {
      if (!(a & mask)) return;
      const uint32_t l = a >> 44;
      if (l == r.launch) {
        const unsigned block = a >> 26 & 0x3ffff, thread = a >> 15 & 0x7ff;
        if (block != (r.block & 0x3ffff)) fail(LAUNCH_FAILED, from, "%s of a word with a %s by another block", kind(write), what);
        if (together(a >> 10 & 31, r.barriers & 31, a >> 4 & 63, r.meetings & 63, thread, atomic))
          fail(LAUNCH_FAILED, from, "%s of a word with a %s by %s, no barrier between", kind(write), what, who(thread));
        return;
      }
      const unsigned from_ = streamOf[l];
      if (from_ == r.stream) {
        if (!r.settled && l > streams[r.stream].separated)
          fail(LAUNCH_FAILED, from, "%s, before settle, of a word with a %s by a kernel that may still run", kind(write), what);
      } else if (from_ < streams.size() && l > streams[from_].known)
        fail(LAUNCH_FAILED, from, "%s of a word with a %s by a kernel of another stream, which nothing waited for", kind(write), what);
    };
    before(x.store, "store");
    if (write) {
      before(x.load, "load");
      x.store = mine | mask;
      s |= mask << 4;
    } else {
      Access a = mine;
      if (x.load >> 44 == r.launch) {
        if ((x.load >> 26) != (mine >> 26)) a |= (Access)0x3ffff << 26; // of several blocks
        a = (a & ~((Access)0x7ff << 15)) | (Access)merged(x.load >> 15 & 0x7ff, (x.load >> 10 & 31) == (r.barriers & 31), (x.load >> 4 & 63) == (r.meetings & 63), atomic) << 15;
        a |= x.load & 15;
      }
      a |= mask;
      x.load = a;
    }
  }
}

INLINE void inShared(const char* p, unsigned bytes, bool write, bool atomic, const void* from) {
  const size_t at = (uintptr_t)p - (uintptr_t)__builtin_assume_aligned(tls, 16);
  const Running& r = running;
  if (r.bulk) bulkConflict(p, bytes, write, from);
  const Access block = (Access)(blockNumber & 0x3fffff) << 42, mine = block | (Access)(r.barriers & 0x3ff) << 32 | (Access)(r.meetings & 0x1ffff) << 15;
  const unsigned thread = atomic ? atomicThread : r.thread;
  for (unsigned done = 0; done < bytes;) {
    const size_t w = (at + done) / 4;
    const unsigned first = (at + done) & 3, n = std::min(4 - first, bytes - done), mask = ((1u << n) - 1) << first;
    done += n;
    const unsigned o = owner[w];
    if (o == 1) {
      const char* start = p < (char*)groups || p >= (char*)groups + sizeof groups ? (char*)::shared : (char*)groups;
      if (size_t(p + bytes - start) > r.shared) fail(ILLEGAL_ADDRESS, from, "%s of %u bytes at %td of %u bytes of shared memory", kind(write), bytes, p - start, r.shared);
    } else if (o == 0 || owner[(at + bytes - 1) / 4] != o)
      fail(ILLEGAL_ADDRESS, from, "%s of %u bytes outside of the variables in shared memory", kind(write), bytes);
    SharedWord& x = sharedWords[w];
    const bool fresh = x.store >> 42 == block >> 42;
    if (!write && !(fresh && (x.store & mask)) && !(fresh && mask != 15)) fail(LAUNCH_FAILED, from, "load of shared memory that no thread of the block has written");
    const auto before = [&](Access a, const char* what) {
      if (a >> 42 != block >> 42 || !(a & mask) || (a >> 32 & 0x3ff) != (r.barriers & 0x3ff)) return;
      if (together(0, 0, a >> 15 & 0x1ffff, r.meetings & 0x1ffff, a >> 4 & 0x7ff, atomic))
        fail(LAUNCH_FAILED, from, "%s of shared memory with a %s by %s, no barrier between", kind(write), what, who(a >> 4 & 0x7ff));
    };
    before(x.store, "store");
    if (write) {
      before(x.load, "load");
      x.store = mine | thread << 4 | mask;
    } else {
      const bool same = x.load >> 32 == mine >> 32; // since the last barrier
      const unsigned who = merged(x.load >> 4 & 0x7ff, same, same && (x.load >> 15 & 0x1ffff) == (r.meetings & 0x1ffff), atomic);
      x.load = mine | who << 4 | mask | (x.load >> 42 == block >> 42 ? x.load & 15 : 0);
    }
  }
}

INLINE void check(const void* at, unsigned bytes, bool write, bool atomic, const void* from) {
  const char* p = (const char*)at;
  if (!running.launch || size_t(p - stacks) < stackSpace) return; // no launch: the library is loaded
  if (size_t(p - base) < space) global(p, bytes, write, atomic, from);
  else if (size_t(p - tls) < tlsBytes) inShared(p, bytes, write, atomic, from);
  else outside(p, bytes, write, from);
}

} // namespace

void bulkStored(const void* at, unsigned bytes) {
  if (size_t((const char*)at - tls) >= tlsBytes) fail(ILLEGAL_ADDRESS, __builtin_return_address(0), "a bulk copy to %p, which is no shared memory", at);
  for (size_t w = ((const char*)at - tls) / 4, end = w + bytes / 4; w < end; w++) sharedWords[w].store |= (Access)0x7ff << 4, sharedWords[w].store &= ~((Access)(0x7ff ^ bulkThread) << 4);
}

char* allocate(size_t bytes, bool host) {
  prepare();
  const size_t n = (std::max<size_t>(bytes, 1) + 255) / 256 * 256;
  if (inUse + n > limit()) return nullptr;
  char* p = nullptr;
  if (top + n + margin < space) {
    p = base + top;
    top += n + margin;
  } else {
    const auto it = freed.find(n);
    if (it == freed.end()) return nullptr;
    p = it->second;
    freed.erase(it);
  }
  inUse += n;
  areas[p] = {bytes, host, true};
  mark(p, bytes, 0xff, host ? 0xff : 0x0f);
  memset(p, 0xa5, bytes);
  return p;
}

bool release(char* p) {
  const auto it = areas.find(p);
  if (it == areas.end() || !it->second.live) return false;
  const size_t n = (std::max<size_t>(it->second.bytes, 1) + 255) / 256 * 256;
  it->second.live = false;
  mark(p, it->second.bytes, 0xff, 0);
  for (size_t w = (p - base) / 4; w < (p - base + n) / 4; w++) words[w] = Word{};
  char* from = (char*)(((uintptr_t)p + 4095) & ~4095ull), *to = (char*)((uintptr_t)(p + n) & ~4095ull);
  if (to > from) madvise(from, to - from, MADV_DONTNEED);
  inUse -= n;
  freed.emplace(n, p);
  return true;
}

void releaseAll() {
  for (auto& [p, b] : areas)
    if (b.live && !b.host) release(p);
}

bool addressable(const void* at, size_t n) {
  const char* p = (const char*)at;
  if (!base || p < base || p + n > base + space) return false;
  const auto it = areas.upper_bound((char*)p);
  return it != areas.begin() && std::prev(it)->second.live && p + n <= std::prev(it)->first + std::prev(it)->second.bytes;
}

bool initialised(const void* at, size_t n) {
  const size_t from = ((const char*)at - base) / 4, to = ((const char*)at - base + n + 3) / 4;
  for (size_t w = from; w < to; w++)
    if ((state[w] >> 4 & state[w] & 15) != (state[w] & 15)) return false;
  return true;
}

void written(void* at, size_t n) { mark((char*)at, n, 0, 0xf0); }
size_t allocated() { return inUse; }

void beginLaunch(unsigned stream) {
  running.launch = ++launchNumber;
  if (launchNumber >= 1 << 20) { // numbers begin anew
    launchNumber = running.launch = 1;
    madvise(words, space / 4 * sizeof(Word), MADV_DONTNEED);
    for (StreamState& s : streams) s = {};
  }
  if (streams.size() <= stream) streams.resize(stream + 1);
  streamOf[launchNumber] = stream;
}
void finished(unsigned stream) {
  if (streams.size() <= stream) streams.resize(stream + 1);
  streams[stream].known = streams[stream].separated = launchNumber;
}
void separated(unsigned stream) {
  if (streams.size() <= stream) streams.resize(stream + 1);
  streams[stream].separated = launchNumber;
}

void beginBlock() {
  if (!(++blockNumber & 0x3fffff)) {
    std::fill(sharedWords.begin(), sharedWords.end(), SharedWord{});
    blockNumber++;
  }
}

// attach finds the thread-local storage of the library in this thread, and in its
// symbol table which parts of it are variables in shared memory.
void attach() {
  ::shared[0] = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* i, size_t, void*) {
        for (int k = 0; k < i->dlpi_phnum; k++) {
          const auto& h = i->dlpi_phdr[k];
          if (h.p_type != PT_TLS || !i->dlpi_tls_data) continue;
          char* at = (char*)i->dlpi_tls_data;
          if ((char*)::shared >= at && (char*)::shared < at + h.p_memsz) tls = at, tlsBytes = h.p_memsz;
        }
        return 0;
      },
      nullptr);
  owner.assign(tlsBytes / 4 + 1, 0);
  sharedWords.assign(tlsBytes / 4 + 1, {});
  Dl_info info;
  dladdr((void*)attach, &info);
  const int f = open(info.dli_fname, O_RDONLY);
  struct stat st;
  fstat(f, &st);
  const char* file = (const char*)mmap(nullptr, st.st_size, PROT_READ, MAP_PRIVATE, f, 0);
  close(f);
  const ElfW(Ehdr)* e = (const ElfW(Ehdr)*)file;
  const ElfW(Shdr)* sections = (const ElfW(Shdr)*)(file + e->e_shoff);
  unsigned next = 2;
  for (int k = 0; k < e->e_shnum; k++) {
    if (sections[k].sh_type != SHT_SYMTAB) continue;
    const ElfW(Sym)* s = (const ElfW(Sym)*)(file + sections[k].sh_offset);
    for (size_t n = sections[k].sh_size / sizeof *s; n > 0; n--, s++)
      if ((s->st_info & 15) == STT_TLS && s->st_shndx != SHN_UNDEF) {
        char* at = tls + s->st_value;
        const bool dynamic = at == (char*)::shared || at == (char*)groups;
        for (size_t w = s->st_value / 4; w < (s->st_value + s->st_size) / 4; w++) owner[w] = dynamic ? 1 : next;
        next++;
      }
  }
  munmap((void*)file, st.st_size);
}

void access(const void* at, unsigned bytes, bool write, bool atomic, const void* from) { check(at, bytes, write, atomic, from); }
template <unsigned bytes, bool write> INLINE void accessOf(void* at, const void* from) { check(at, bytes, write, false, from); }
template <unsigned bytes, bool write> INLINE void aligned(void* at, const void* from) {
  if ((uintptr_t)at % bytes) fail(MISALIGNED, from, "%s of %d bytes at %p", kind(write), bytes, at);
  check(__builtin_assume_aligned(at, bytes), bytes, write, false, from);
}

void constant(const void* at, unsigned bytes) {
  const char* p = (const char*)at;
  if (size_t(p - base) >= space) fail(ILLEGAL_ADDRESS, __builtin_return_address(0), "load by the read-only path of what is not in the device's memory");
  if ((uintptr_t)p % bytes) fail(MISALIGNED, __builtin_return_address(0), "load of %u bytes at %p", bytes, at);
  for (size_t w = (p - base) / 4; w < (size_t(p - base) + bytes + 3) / 4; w++)
    if (words[w].store >> 44 == running.launch) fail(LAUNCH_FAILED, __builtin_return_address(0), "load by the read-only path of a word that this kernel writes");
}

} // namespace emulate

// What g++ calls.
#define HOOK(name, n, write, check) extern "C" void __tsan_##name##n(void* p) { emulate::check<n, write>(p, __builtin_return_address(0)); }
#define ALIGNED(n)                    \
  HOOK(read, n, false, aligned)       \
  HOOK(write, n, true, aligned)       \
  HOOK(unaligned_read, n, false, aligned) \
  HOOK(unaligned_write, n, true, aligned)
HOOK(read, 1, false, accessOf)
HOOK(write, 1, true, accessOf)
ALIGNED(2)
ALIGNED(4)
ALIGNED(8)
ALIGNED(16)
extern "C" void __tsan_read_range(void* p, unsigned long n) { emulate::access(p, n, false, false, __builtin_return_address(0)); }
extern "C" void __tsan_write_range(void* p, unsigned long n) { emulate::access(p, n, true, false, __builtin_return_address(0)); }
extern "C" void __tsan_init() {}
