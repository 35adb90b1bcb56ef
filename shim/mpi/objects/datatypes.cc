#include "shim/mpi/objects/datatypes.h"

#include <array>
#include <cstddef>
#include <vector>

#include "ncclwatch/functions/types.h"
#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {

constinit HandleMap<Datatype> datatypes;
constinit FreedOnes freed_types;
constinit Predefined predefined_types;
constinit Predefined predefined_operators;

namespace {

using functions::Function;
using functions::kDerivedType;

// A sequence a b c is a + b*kBase + c*kBase^2, modulo 2^64.
constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15ull;

constexpr std::uint64_t Power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t power = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) power *= base;
  return power;
}

// 1 + step + step^2 + ... + step^(count - 1).
constexpr std::uint64_t Geometric(std::uint64_t step, std::uint64_t count) {
  if (count == 0) return 0;
  const std::uint64_t half = Geometric(step, count / 2);
  const std::uint64_t even = half * (1 + Power(step, count / 2));
  return count % 2 == 0 ? even : even + Power(step, count - 1);
}

// By number of the type: one for all names of what is one type on this machine, MPI_INT, MPI_INT32_T and MPI_INTEGER.
// The standard tells them apart, no MPI does, and of a derived type there is no saying afterwards that this was all.
constinit std::array<std::uint8_t, 256> kinds{};

void LearnKind(std::uint8_t number, std::uint64_t bytes) {
  const bool floating = kTypeClasses[number] == kReals || kTypeClasses[number] == kComplexes;
  kinds[number] = static_cast<std::uint8_t>(bytes << 1 | (floating ? 1 : 0));
}

std::uint64_t HashOf(const Datatype& type) {
  return type.basic == kDerivedType ? type.hash : kinds[type.basic] * Geometric(kBase, type.elements);
}

// What follows `type`, `count` times `more`.
void Append(Datatype* type, const Datatype& more, std::uint64_t count) {
  if (count == 0 || more.elements == 0) return;
  if (type->elements == 0) type->basic = more.basic;
  if (type->basic == 0 || more.basic == 0) {
    type->basic = 0;
  } else if (kinds[type->basic] != kinds[more.basic] || type->basic == kDerivedType || more.basic == kDerivedType) {
    const std::uint64_t repeated = HashOf(more) * Geometric(Power(kBase, more.elements), count);
    type->hash = HashOf(*type) + Power(kBase, type->elements) * repeated;
    type->basic = kDerivedType;
  }
  type->elements += more.elements * count;
}

#ifdef OPEN_MPI
using Counts = int;
#else
using Counts = MPI_Count;  // those of types made with large counts are not told otherwise
#endif

struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<Counts> counts;  // and other whole numbers
  std::vector<MPI_Datatype> types;
};

bool AskContents(MPI_Datatype type, Contents* contents) {
  Counts integers = 0, addresses = 0, types = 0;
#ifdef OPEN_MPI
  auto* ask = NCCLWATCH_REAL(MPI_Type_get_envelope);
  auto* look = NCCLWATCH_REAL(MPI_Type_get_contents);
  if (!ask || !look || ask(type, &integers, &addresses, &types, &contents->combiner) != MPI_SUCCESS) return false;
  if (contents->combiner == MPI_COMBINER_NAMED) return true;
  std::vector<MPI_Aint> places(static_cast<std::size_t>(addresses) + 1);
  std::vector<int> whole(static_cast<std::size_t>(integers) + 1);
  contents->types.resize(static_cast<std::size_t>(types) + 1);
  if (look(type, integers, addresses, types, whole.data(), places.data(), contents->types.data()) != MPI_SUCCESS)
    return false;
  contents->counts.assign(whole.begin(), whole.end());
#else
  Counts larges = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Type_get_envelope_c);
  auto* look = NCCLWATCH_REAL(MPI_Type_get_contents_c);
  if (!ask || !look || ask(type, &integers, &addresses, &larges, &types, &contents->combiner) != MPI_SUCCESS)
    return false;
  if (contents->combiner == MPI_COMBINER_NAMED) return true;
  std::vector<MPI_Aint> places(static_cast<std::size_t>(addresses) + 1);
  std::vector<int> whole(static_cast<std::size_t>(integers) + 1);
  std::vector<MPI_Count> large(static_cast<std::size_t>(larges) + 1);
  contents->types.resize(static_cast<std::size_t>(types) + 1);
  if (look(type, integers, addresses, larges, types, whole.data(), places.data(), large.data(),
           contents->types.data()) != MPI_SUCCESS)
    return false;
  // Of a type made with large counts, the counts that others have among the integers come first here.
  contents->counts.assign(whole.begin(), whole.end() - 1);
  if (larges > 0) contents->counts.assign(large.begin(), large.end() - 1);
  contents->counts.push_back(0);
#endif
  contents->types.pop_back();
  return true;
}

// Of types that nobody has seen being made, as in a tool, MPI is asked; where it gives copies of the inner types, again
// for each of them, and nested ones have more of them than can be asked about.
constexpr int kMostAsked = 256;  // a millisecond at the most; what is behind stays unknown

void Describe(MPI_Datatype type, int* asked, Datatype* described);

// Handles that MPI_Type_get_contents gives out are the caller's to free, but for predefined ones.
class Inner {
 public:
  Inner(MPI_Datatype type, int* asked) : type_(type) { Describe(type, asked, &described_); }
  ~Inner() {
    auto* release = NCCLWATCH_REAL(MPI_Type_free);
    if (release && AskEnvelope() != MPI_COMBINER_NAMED) release(&type_);
  }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;
  const Datatype& described() const { return described_; }

 private:
  int AskEnvelope() const {
    int combiner = MPI_COMBINER_NAMED;
#ifdef OPEN_MPI
    int integers = 0, addresses = 0, types = 0;
    auto* ask = NCCLWATCH_REAL(MPI_Type_get_envelope);
    if (ask) ask(type_, &integers, &addresses, &types, &combiner);
#else
    MPI_Count integers = 0, addresses = 0, larges = 0, types = 0;
    auto* ask = NCCLWATCH_REAL(MPI_Type_get_envelope_c);
    if (ask) ask(type_, &integers, &addresses, &larges, &types, &combiner);
#endif
    // Made by MPI itself, and never freed.
    const bool shared = combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
                        combiner == MPI_COMBINER_F90_INTEGER;
    return shared ? MPI_COMBINER_NAMED : combiner;
  }
  MPI_Datatype type_;
  Datatype described_;
};

std::uint64_t Sum(const std::vector<Counts>& counts, std::size_t first, std::size_t number) {
  std::uint64_t sum = 0;
  for (std::size_t i = first; i < first + number && i < counts.size(); ++i)
    sum += static_cast<std::uint64_t>(counts[i]);
  return sum;
}

// How many of its one inner type a type has.
std::uint64_t Repeats(const Contents& contents, std::uint64_t bytes, const Datatype& inner) {
  const std::vector<Counts>& counts = contents.counts;
  const auto number = static_cast<std::uint64_t>(counts.empty() ? 0 : counts[0]);
  switch (contents.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return 1;
    case MPI_COMBINER_CONTIGUOUS: return number;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: return number * Sum(counts, 1, 1);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED: return Sum(counts, 1, number);
    default: return inner.bytes ? bytes / inner.bytes : 0;  // subarrays, distributed arrays
  }
}

std::uint64_t BytesOf(MPI_Datatype type) {
  MPI_Count bytes = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Type_size_x);
  return ask && ask(type, &bytes) == MPI_SUCCESS && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

// Where the elements lie. `dense`: no two of them at the same place, so that it has no gaps if the sums agree.
void AskLayout(MPI_Datatype type, bool dense, Datatype* described) {
  MPI_Aint lower = 0, extent = 0, lowest = 0, true_extent = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Type_get_extent);
  auto* look = NCCLWATCH_REAL(MPI_Type_get_true_extent);
  described->whole = false;
  if (!ask || !look || ask(type, &lower, &extent) != MPI_SUCCESS || look(type, &lowest, &true_extent) != MPI_SUCCESS)
    return;
  const auto bytes = static_cast<MPI_Aint>(described->bytes);
  described->lowest = lowest;
  described->extent = extent;
  described->whole = dense && lower == 0 && lowest == 0 && extent == bytes && true_extent == bytes;
}

bool KeepsDense(int combiner) {
  return combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_VECTOR ||
         combiner == MPI_COMBINER_HVECTOR || combiner == MPI_COMBINER_SUBARRAY || combiner == MPI_COMBINER_RESIZED;
}

// As if made by MPI_Type_create_struct of the two (MPI-3.1, 5.9.4).
struct Pair {
  MPI_Datatype type, first, second;
};
constexpr std::size_t kPairTypes = 9;
std::array<Pair, kPairTypes> Pairs() {
  return {{{MPI_FLOAT_INT, MPI_FLOAT, MPI_INT},
           {MPI_DOUBLE_INT, MPI_DOUBLE, MPI_INT},
           {MPI_LONG_INT, MPI_LONG, MPI_INT},
           {MPI_SHORT_INT, MPI_SHORT, MPI_INT},
           {MPI_2INT, MPI_INT, MPI_INT},
           {MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE, MPI_INT},
           {MPI_2REAL, MPI_REAL, MPI_REAL},
           {MPI_2DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION},
           {MPI_2INTEGER, MPI_INTEGER, MPI_INTEGER}}};
}
constinit std::array<Datatype, kPairTypes> pair_types{};  // learned with the predefined ones

Datatype OfPredefined(const Predefined::Entry& known) {
  Datatype type{.elements = 1,
                .bytes = known.bytes,
                .basic = known.number,
                .committed = true,
                .whole = known.whole,
                .extent = known.extent};
  if (known.pair == 0) return type;
  const Datatype& pair = pair_types[known.pair - 1u];
  type.elements = pair.elements;
  type.basic = pair.basic;
  type.hash = pair.hash;
  return type;
}

// 0: it is none, or MPI has no such elements (Fortran's, where there is no Fortran).
std::uint8_t LearnPair(MPI_Datatype type) {
  const std::array<Pair, kPairTypes> pairs = Pairs();
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    Datatype first, second, both;
    if (pairs[i].type != type || !FindDatatype(pairs[i].first, &first) || !FindDatatype(pairs[i].second, &second))
      continue;
    Append(&both, first, 1);
    Append(&both, second, 1);
    pair_types[i] = both;
    return static_cast<std::uint8_t>(i + 1);
  }
  return 0;
}

void Describe(MPI_Datatype type, int* asked, Datatype* described) {
  if (FindDatatype(type, described)) return;
  *described = {};
  described->bytes = BytesOf(type);
  described->elements = 1;
  Contents contents;
  // A predefined one that we do not know?
  if (++*asked > kMostAsked || !AskContents(type, &contents) || contents.types.empty())
    return AskLayout(type, true, described);
  *described = {.bytes = described->bytes};
  AskLayout(type, false, described);
  if (contents.combiner == MPI_COMBINER_STRUCT) {
    for (std::size_t i = 0; i < contents.types.size(); ++i)
      Append(described, Inner(contents.types[i], asked).described(), Sum(contents.counts, 1 + i, 1));
    return;
  }
  const Inner inner(contents.types[0], asked);
  if (inner.described().whole && KeepsDense(contents.combiner)) AskLayout(type, true, described);
  Append(described, inner.described(), Repeats(contents, described->bytes, inner.described()));
}

}  // namespace

bool FindDatatype(MPI_Datatype type, Datatype* found) {
  if (const Predefined::Entry* known = predefined_types.Find(Bits(type))) {
    *found = OfPredefined(*known);
    return true;
  }
  return datatypes.Find(Bits(type), found) && found->freed_at == 0;
}

std::uint32_t SignatureOf(const Datatype& type, std::uint64_t count) {
  const std::uint64_t elements = type.elements * count;
  if (elements == 0) return kEmptySignature;
  if (type.basic == 0) return 0;
  if (type.basic != kDerivedType) return SignatureOfBasic(type.basic, elements);
  return SignatureOfSequence(HashOf(type) * Geometric(Power(kBase, type.elements), count), elements);
}

void LearnPredefined() {
  struct Known {
    MPI_Datatype type;
    std::uint8_t number;
  };
  const Known known[] = {
#define DATATYPE(number, name) {name, number},
#include "ncclwatch/functions/mpi_types.def"
  };
  for (const Known& each : known) {
    if (each.type == MPI_DATATYPE_NULL) continue;
    Datatype type{.bytes = BytesOf(each.type)};
    AskLayout(each.type, true, &type);
    LearnKind(each.number, type.bytes);
    predefined_types.Add({.handle = Bits(each.type),
                          .bytes = static_cast<std::uint16_t>(type.bytes),
                          .extent = static_cast<std::uint16_t>(type.extent),
                          .number = each.number,
                          .whole = type.whole,
                          .pair = LearnPair(each.type)});
  }
#define OPERATOR(number, name) predefined_operators.Add({Bits(name), 0, 0, number});
#include "ncclwatch/functions/mpi_types.def"
}

bool FindAnyDatatype(MPI_Datatype type, Datatype* found) {
  return FindDatatype(type, found) || datatypes.Find(Bits(type), found);
}

void TypeSignatureBuilder::Add(MPI_Datatype type, std::uint64_t count) {
  known_ = known_ && FindDatatype(type, &inner_);
  if (known_) Append(&sequence_, inner_, count);
}

void TypeSignatureBuilder::Fill(MPI_Datatype type) {
  Add(type, 0);
  fills_ = true;
}

void LearnDatatype(const Call& call, MPI_Datatype made, const TypeSignatureBuilder& ingredients) {
  if (made == MPI_DATATYPE_NULL) return;
  Datatype type;
  datatypes.Remove(Bits(made), [](const Datatype& before) {
    if (before.freed_at != 0) freed_types.CameAgain();
    return true;
  });
  if (ingredients.known_) {
    const Datatype& inner = ingredients.inner_;
    type = ingredients.sequence_;
    type.bytes = BytesOf(made);
    if (ingredients.fills_) Append(&type, inner, inner.bytes ? type.bytes / inner.bytes : 0);
    AskLayout(made, ingredients.keeps_dense_ && inner.whole, &type);
  } else {
    int asked = 0;
    try {
      Describe(made, &asked, &type);
    } catch (...) {
      return;  // out of memory: it stays unknown
    }
  }
  type.made_at = call.site;
  type.made_by = static_cast<std::uint32_t>(call.function);
  type.references = 1;
  type.committed = false;
  datatypes.Put(Bits(made), type);
}

void CommitDatatype(MPI_Datatype type) {
  Datatype there;
  if (!datatypes.Find(Bits(type), &there)) return;
  there.committed = true;
  datatypes.Put(Bits(type), there);
}

void ForgetDatatype(const Call& call, MPI_Datatype type) {
  Datatype there;
  if (!datatypes.Find(Bits(type), &there)) return;
  if (there.freed_at == 0 && !freed_types.KeepOneMore()) {
    datatypes.Remove(Bits(type), [](const Datatype&) { return true; });
    return;
  }
  there.freed_at = call.site;
  there.references = 0;
  datatypes.Put(Bits(type), there);
}

void AmountOfPairs(Call& call, const Predefined::Entry& type) {
  call.dtype = type.number;
  call.bytes = type.bytes * call.count;
  call.signature = SignatureOf(OfPredefined(type), call.count);
  call.whole = type.whole;
}

namespace {

bool MayStandForPredefined(const Datatype& type) {
  return type.made_at == 0 || static_cast<Function>(type.made_by) == Function::MPI_Type_dup;
}

}  // namespace

void AmountOfMade(Call& call, MPI_Datatype type) {
  Datatype known;
  const bool usable = FindDatatype(type, &known);
  if (!usable || !known.committed) [[unlikely]]
    CheckUnusable(call, type);
  if (!usable) return;
  call.dtype = known.basic ? known.basic : kDerivedType;
  call.made_type = !MayStandForPredefined(known);
  call.bytes = known.bytes * call.count;
  call.signature = SignatureOf(known, call.count);
  call.whole = known.whole;
  if (known.basic) call.count *= known.elements;  // as the dtype
}

Piece FirstByteOf(const Call& call, const void* buffer, MPI_Datatype type) {
  Datatype known;
  if (call.count == 0 || !FindDatatype(type, &known) || known.bytes == 0 || known.extent == 0) return {};
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(buffer) + static_cast<std::uintptr_t>(known.lowest);
  return {begin, begin + 1};
}

std::uint32_t SignatureOf(std::uint64_t count, MPI_Datatype type) {
  Datatype known;
  return FindDatatype(type, &known) ? SignatureOf(known, count) : 0;
}

}  // namespace ncclwatch::shim::mpi
