// Datatypes, as far as two sides of a message must agree about them: the signature (format/signature.h) of the basic
// types that a type is made of.
#pragma once

#include <cstdint>

#include "ncclwatch/format/signature.h"
#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/core/predefined.h"

namespace ncclwatch::shim::mpi {

struct Datatype {
  std::uint64_t elements = 0;  // basic ones
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // of the sequence, where not all are the same: polynomial in kBase
  std::uint8_t basic = 0;  // functions::Datatype..., kDerivedType where they differ; 0: some of them is not known
  bool committed = false;
  bool whole = false;       // its elements, and those of several of it in a row, lie in one piece without gaps
  std::int64_t lowest = 0;  // where its first byte lies
  std::int64_t extent = 0;
  std::uint64_t made_at = 0;   // return address of the call that made it; 0: predefined
  std::uint64_t freed_at = 0;  // 0: it is alive
  std::uint32_t made_by = 0;   // functions::Function
  std::uint32_t references = 0;
};

using format::kEmptySignature;
using format::SignatureOfBasic;
using format::SignatureOfSequence;

// What a call makes a type of, by its arguments: MPI_Type_get_contents may give copies of the inner types, of which
// nothing is known. Taken down before MPI makes the type, which may be written where one of these stands.
class TypeSignatureBuilder {
 public:
  // keeps_dense: no two elements lie at the same place where none of the inner type do.
  explicit TypeSignatureBuilder(bool keeps_dense) : keeps_dense_(keeps_dense) {}
  void Add(MPI_Datatype type, std::uint64_t count);
  // One alone, as often as the size of the whole says.
  void Fill(MPI_Datatype type);
  bool known() const { return known_; }  // all of them

 private:
  friend void LearnDatatype(const Call& call, MPI_Datatype made, const TypeSignatureBuilder& ingredients);
  Datatype sequence_;
  Datatype inner_;  // the last one
  bool keeps_dense_;
  bool fills_ = false;
  bool known_ = true;
};

// Equal for equal sequences of basic types; 0 where the sequence is not known.
std::uint32_t SignatureOf(const Datatype& type, std::uint64_t count);

// Predefined ones, and operators. In MPI_Init, once it has succeeded.
void LearnPredefined();
// One that has just been made by a successful call: only handles that are known to be good are asked about, since MPI
// would end the job over a bad one.
void LearnDatatype(const Call& call, MPI_Datatype made, const TypeSignatureBuilder& ingredients);
void CommitDatatype(MPI_Datatype type);
void ForgetDatatype(const Call& call, MPI_Datatype type);

// False: not known, or freed.
bool FindDatatype(MPI_Datatype type, Datatype* found);
// Also one that was freed.
bool FindAnyDatatype(MPI_Datatype type, Datatype* found);
// Those that the application has made.
template <class Visit>
void ForEachDatatype(const Visit& visit);

// The elements that a call speaks of; whether it may. A type that is not known leaves signature and bytes 0.
void AmountOfMade(Call& call, MPI_Datatype type);
void AmountOfPairs(Call& call, const Predefined::Entry& type);
inline void Amount(Call& call, std::uint64_t count, MPI_Datatype type) {
  if (static_cast<std::int64_t>(count) < 0) [[unlikely]]
    return;  // has been told, and is refused: there is no such message
  call.count = count;
  const Predefined::Entry* known = predefined_types.Find(Bits(type));
  if (!known) [[unlikely]]
    return AmountOfMade(call, type);
  if (known->pair) [[unlikely]]
    return AmountOfPairs(call, *known);
  call.dtype = known->number;
  call.bytes = known->bytes * count;
  call.signature = SignatureOfBasic(known->number, count);
  call.whole = known->whole;
}
// The signature alone, of one of several.
std::uint32_t SignatureOf(std::uint64_t count, MPI_Datatype type);

inline std::uint8_t ReductionOf(MPI_Op op) {
  const Predefined::Entry* known = predefined_operators.Find(Bits(op));
  return known ? known->number : format::kUserReduction;
}

// The memory of so many elements, whose type Amount() has looked up for the call; where there are gaps between them,
// the first byte alone, which is one of theirs. Empty where nothing is known of the type.
[[gnu::cold]] Piece FirstByteOf(const Call& call, const void* buffer, MPI_Datatype type);
inline Piece PieceOf(const Call& call, const void* buffer, MPI_Datatype type) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 47;  // more is a negative count
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer);
  if (call.bytes - 1 >= kMostBytes) [[unlikely]]
    return {};
  if (!call.whole) [[unlikely]]
    return FirstByteOf(call, buffer, type);
  return {begin, begin + call.bytes};
}

extern HandleMap<Datatype> datatypes;  // made by the application
template <class Visit>
void ForEachDatatype(const Visit& visit) {
  datatypes.ForEach([&](std::uint64_t, const Datatype& type) { visit(type); });
}

}  // namespace ncclwatch::shim::mpi
