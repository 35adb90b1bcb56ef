#include "watchdog/rundir/slurm_tasks.h"

#include <charconv>

namespace ncclwatch::rundir {
namespace {

// Takes a positive number off the front of the text.
std::optional<std::int32_t> TakeNumber(std::string_view* text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || value <= 0) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return value;
}

bool Take(std::string_view word, std::string_view* text) {
  if (!text->starts_with(word)) return false;
  text->remove_prefix(word.size());
  return true;
}

}  // namespace

std::optional<std::int32_t> TasksOfNode(std::string_view list, std::int32_t node) {
  if (node < 0) return std::nullopt;
  do {
    const std::optional<std::int32_t> tasks = TakeNumber(&list);
    std::optional<std::int32_t> nodes = 1;
    if (Take("(x", &list)) {
      nodes = TakeNumber(&list);
      if (!nodes || !Take(")", &list)) return std::nullopt;
    }
    if (!tasks) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  } while (Take(",", &list));
  return std::nullopt;
}

}  // namespace ncclwatch::rundir
