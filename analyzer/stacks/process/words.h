// Words that several sentences about processes need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ncclwatch::stacks {

std::string StateText(char state);           // 'T' -> "stopped by a signal"
std::string BytesText(std::uint64_t bytes);  // "8.1 GiB", "512 KiB", "0 B"
// "pid 4712 'pt_data_worker' (stopped by a signal)"; "pid 4712 (gone)" if there is none.
std::string PidText(int pid);
// "a, b and 3 more": those of `all` that are shown.
std::string ListText(const std::vector<std::string>& shown, std::size_t all);
// Of the thread that the system call was made by; "" for a number that the headers do not know.
std::string CallName(long number);

}  // namespace ncclwatch::stacks
