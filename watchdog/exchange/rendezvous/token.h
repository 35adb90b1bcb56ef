// What the leaders of one job share: its identity, which is no secret, and tokens, which are as secret as their source.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "watchdog/exchange/protocol/exchange.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::exchange {

// The same text in every process of the job on every node, and another one in other jobs: launcher's job number or run
// id, master address and port. Not the restart count: torchrun's agents count restarts each for itself. Empty where the
// launcher tells nothing that nodes share.
std::string JobIdentity(const rundir::Lookup& lookup);

// As strong as the text is hard to guess. Everything below 16 random bytes is for tests. job_name keeps jobs apart that
// were given the same secret.
Token TokenOfSecret(std::string_view secret, std::string_view job_name = {});
// Guessable: keeps jobs apart, and strangers out who do not know how the job was started; whoever can see its
// environment or guess port and job number is no stranger to it.
Token TokenOfJob(std::string_view job_identity);
// Of the 128 bytes of an ncclUniqueId: 64 random bits by NCCL itself (since 2.16) and 48 by ours where it could put
// them there (unique_id.h). Shared by the ranks of that communicator only, as secret as the way the job hands the id
// round. Nothing under NCCL_COMM_ID, where all ids are equal. Guessable before 2.16 where ours are not there either.
Token TokenOfUniqueId(std::span<const std::uint8_t, 128> id);

// The identity of a job whose launcher tells none: of those who share its secret.
std::string IdentityOfSecret(const Token& token);
// Under which the job's shared secret is kept: 24 hexadecimal digits.
std::string FileNameOf(std::string_view job_identity);

// A node is what has one leader: one run directory in one boot of one machine. 32 hexadecimal digits.
std::string NodeName(const std::string& run_directory);

}  // namespace ncclwatch::exchange
