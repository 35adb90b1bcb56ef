// How many tasks of a Slurm step run on each of its nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ncclwatch::rundir {

// Of the step's node with this number, from a list like "4(x2),3". None if the list does not tell.
std::optional<std::int32_t> TasksOfNode(std::string_view list, std::int32_t node);

}  // namespace ncclwatch::rundir
