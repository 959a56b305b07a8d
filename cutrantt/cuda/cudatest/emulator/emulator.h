// What the parts of the emulator share. One operating system thread, the worker,
// runs all kernels; nothing here is called from another one while it does.
#pragma once
#include "cuda.h"
#include <string>

namespace emulate {

// Results of the driver interface that a fault of a kernel becomes.
enum Code { OK = 0, INVALID = 1, NO_MEMORY = 2, ILLEGAL_ADDRESS = 700, MISALIGNED = 716, LAUNCH_FAILED = 719 };

// Launch is one kernel with its grid.
struct Launch {
  const Entry* entry;
  uint3 grid;
  unsigned threads, shared; // dynamic shared memory, bytes
  bool early;               // programmatic launch: may start while kernels before it run
  unsigned stream;
  char parameter[512];
};

// run executes a launch; the result is OK, or what it failed with (see fault).
Code run(const Launch&);

// fail reports a fault of the running kernel and ends its launch.
[[noreturn]] void fail(Code, const void* at, const char* format, ...) __attribute__((format(printf, 3, 4), cold));
extern std::string fault; // the last one, in words

// placeOf is the line of the source of an address in the library, with what
// separates it from text before it.
std::string placeOf(const void* at);

// What the checks of memory need to know of the running thread.
struct Running {
  uint32_t launch, block, thread; // number of the launch, linear indices
  uint32_t barriers, meetings;    // that the block and the thread's warp passed
  bool settled, early, bulk;      // bulk: a bulk copy of the block is not behind a barrier
  unsigned stream, shared;
};
extern Running running;
extern char* stacks;           // of the threads of the device
extern const size_t stackSpace;

// bulkConflict fails where the running thread reaches for shared memory that a bulk
// copy writes and that it did not wait for (block.cpp).
void bulkConflict(const char* p, unsigned bytes, bool write, const void* from);

// memory.cpp
char* allocate(size_t bytes, bool host);
bool release(char*);
void releaseAll();
bool addressable(const void*, size_t);
bool initialised(const void*, size_t);
void written(void*, size_t); // by the host or a copy
size_t allocated();
void access(const void*, unsigned bytes, bool write, bool atomic, const void* from);
void bulkStored(const void*, unsigned bytes); // the copy engine stored what the running thread is said to have
void beginLaunch(unsigned stream);
void beginBlock();
void finished(unsigned stream);  // the host knows that all work of a stream is done
void separated(unsigned stream); // the stream had work that no kernel overlaps
void attach();                   // to the shared memory of the worker
} // namespace emulate
