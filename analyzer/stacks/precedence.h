// How urgent the thread is that reads another process.
#pragma once

namespace ncclwatch::stacks {

// The calling thread goes before ordinary ones from now on, where it is allowed to. Reading a process's memory takes
// the kernel's lock on its address space for microseconds. Who loses the processor then keeps the lock until it is its
// turn again, and each thread of the process that maps or unmaps memory waits as long: a reader below its process holds
// it up for tenths of a second on a busy machine, one above it for none.
void TakePrecedence();

}  // namespace ncclwatch::stacks
