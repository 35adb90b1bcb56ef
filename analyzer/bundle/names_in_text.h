// Names of hosts and users that a log says without being asked: where NCCL, UCX, MPI, Slurm, torchrun, the system log
// and shells write them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer {

inline bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

struct NamesInText {
  std::vector<std::string> hosts, users;
};

// Each may come several times.
NamesInText FindNames(std::string_view text);

// A name with a domain, as "node17.cluster.example.com": not "torch.nn.functional", "train.py" or "2.28.9". Sites that
// everybody knows (pytorch.org) are none.
bool IsHostWithDomain(std::string_view word);

// A site that everybody knows: pytorch.org, docs.nvidia.com.
bool IsPublicSite(std::string_view name);

// "node" of "node17", if other hosts may be called likewise; not "gpu" or "rank". Empty: no.
std::string_view FamilyOf(std::string_view host);

}  // namespace ncclwatch::analyzer
