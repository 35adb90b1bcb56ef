// Words that several sentences about processes need.
#pragma once

#include <cstdint>
#include <string>

namespace ncclwatch::stacks {

std::string StateText(char state);           // 'T' -> "stopped by a signal"
std::string BytesText(std::uint64_t bytes);  // "8.1 GiB", "512 KiB", "0 B"
// "pid 4712 'pt_data_worker' (stopped by a signal)"; "pid 4712 (gone)" if there is none.
std::string PidText(int pid);
// Of the thread that the system call was made by; "" for a number that the headers do not know.
std::string CallName(long number);

}  // namespace ncclwatch::stacks
