// A short-lived thread of ours in the host: all signals blocked but what guard.h needs, detached, its own small stack.
#pragma once

#include <functional>

namespace ncclwatch::act {

// False if no thread could be made. What `body` throws is dropped.
bool StartThread(const char* name, std::function<void()> body);

}  // namespace ncclwatch::act
