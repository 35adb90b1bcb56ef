// What a wrapper knows of one call of MPI. Lives on the stack of the calling thread. The shape of the call fills the
// first part (shapes.h), recording the rest (record.h).
#pragma once

#include <cstdint>

#include "ncclwatch/format/mpi_record.h"
#include "ncclwatch/functions/function.h"
#include "shim/base/thread.h"
#include "shim/black_box/box.h"
#include "shim/mpi/core/open_buffers.h"
#include "shim/python/lines.h"

namespace ncclwatch::shim::mpi {

struct SavedParts;

struct Call {
  // No aggregate: that would be zeroed as a whole first, which costs as much as a record does.
  Call(Box& its_box, Thread& its_thread, functions::Function its_function, std::uint64_t its_site)
      : box(its_box), thread(its_thread), function(its_function), site(PlaceOf(its_box, its_thread, its_site)) {}

  Box& box;
  Thread& thread;
  functions::Function function;
  std::uint64_t site;  // as a record has it: a return address, or a line of Python

  // Of the communicator: its table entry, and what the shapes ask of it.
  std::uint32_t index = format::kNoCommunicator;
  std::uint32_t generation = 0;
  std::int32_t rank = format::kNoRank;
  std::uint32_t size = 0;  // 0: not known
  bool inter = false;

  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint32_t signature = 0;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  std::uint16_t parts_high = 0;  // format::MpiRecord::parts_high
  std::int32_t root = format::kNoRank;
  std::int32_t tag = format::kNoTag;
  std::uint32_t flags = 0;
  SavedParts* saving = nullptr;  // of a persistent one that is being made: where its parts go

  bool whole = false;            // its elements lie in one piece
  bool made_type = false;        // its type is one that the program has made
  Piece piece;                   // of a message: what is sent, or received into
  std::uint8_t misuse = 0;       // number + 1 of the entry that says what is wrong with the call
  std::uint64_t slot = kNoSlot;  // none while switched off
  std::uint64_t returned = 0;    // ticks; ReturnOf() takes them once
  std::uint64_t position = 0;
  std::uint64_t chain = 0;
  std::uint64_t chain_before;  // of a collective on a communicator that is known
  std::uint64_t group = 0;
};

}  // namespace ncclwatch::shim::mpi
