// Groups, operators and datatypes: made, given out and freed. What is made is the last argument, what
// is freed the only one.
#pragma once

#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/objects/groups.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/record.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

template <ObjectKind kind>
struct MakesObject {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    Check<function>(call, arguments...);
    const int result = real(arguments...);
    if (result == MPI_SUCCESS && !IsConstant(*Last(arguments...))) NoteMade(call, kind, Bits(*Last(arguments...)));
    return Noted(call, result);
  }

 private:
  template <Function function, class... A>
  static void Check(Call& call, A... arguments) {
    if constexpr (function == Function::MPI_Group_incl || function == Function::MPI_Group_excl)
      CheckMembers(call, std::get<0>(std::tie(arguments...)), std::get<1>(std::tie(arguments...)),
                   std::get<2>(std::tie(arguments...)));
    if constexpr (function == Function::MPI_Group_range_incl || function == Function::MPI_Group_range_excl)
      CheckRanges(call, std::get<0>(std::tie(arguments...)), std::get<1>(std::tie(arguments...)),
                  std::get<2>(std::tie(arguments...)));
  }
  template <class Handle>
  static bool IsConstant(Handle made) {
    if constexpr (kind == ObjectKind::kGroup) return made == MPI_GROUP_EMPTY || made == MPI_GROUP_NULL;
    return false;
  }
};

template <ObjectKind kind>
struct FreesObject {
  template <Function, class Real, class Handle>
  static int Intercept(Call& call, Real real, Handle* object) {
    const Handle before = Given(object, Null<Handle>());
    if (before == Null<Handle>()) Report(call, {.wrong = Wrong::kNullObject});
    CheckFreed(call, Bits(before));
    if constexpr (kind == ObjectKind::kOperator)
      if (ReductionOf(before) != format::kUserReduction) Report(call, {.wrong = Wrong::kPredefined});
    const int result = real(object);
    if (result == MPI_SUCCESS) NoteFreed(call, kind, Bits(before));
    return Noted(call, result);
  }

 private:
  static void CheckFreed(Call& call, std::uint64_t handle) {
    Life life;
    if (!WasFreed(kind, handle, &life)) return;
    Report(call, {.wrong = kind == ObjectKind::kGroup ? Wrong::kFreedGroup : Wrong::kFreedOperator,
                  .made_at = life.freed_at,
                  .made_by = static_cast<Function>(life.freed_by)});
  }
  template <class Handle>
  static Handle Null() {
    if constexpr (kind == ObjectKind::kGroup)
      return MPI_GROUP_NULL;
    else
      return MPI_OP_NULL;
  }
};

using GroupMakes = MakesObject<ObjectKind::kGroup>;
using GroupFree = FreesObject<ObjectKind::kGroup>;
using OpCreate = MakesObject<ObjectKind::kOperator>;
using OpFree = FreesObject<ObjectKind::kOperator>;

// How many blocks a type has, and how long they are, where that is one number: the first arguments.
constexpr int LeadingCounts(Function function) {
  switch (functions::WithSmallCounts(function)) {
    case Function::MPI_Type_vector:
    case Function::MPI_Type_hvector:
    case Function::MPI_Type_create_hvector:
    case Function::MPI_Type_create_hindexed_block:
    case Function::MPI_Type_create_indexed_block: return 2;
    case Function::MPI_Type_contiguous:
    case Function::MPI_Type_indexed:
    case Function::MPI_Type_hindexed:
    case Function::MPI_Type_create_hindexed:
    case Function::MPI_Type_struct:
    case Function::MPI_Type_create_struct: return 1;
    default: return 0;
  }
}

// ... or as many as there are blocks.
constexpr bool HasLengths(Function function) {
  return LeadingCounts(function) == 1 && functions::WithSmallCounts(function) != Function::MPI_Type_contiguous;
}
template <class Count>
void CheckLengths(Call& call, Count count, const Count* lengths) {
  for (Count i = 0; lengths && i < count; ++i) CheckCount(call, lengths[i]);
}

constexpr bool KeepsDense(Function function) {
  switch (functions::WithSmallCounts(function)) {
    case Function::MPI_Type_dup:
    case Function::MPI_Type_contiguous:
    case Function::MPI_Type_vector:
    case Function::MPI_Type_hvector:
    case Function::MPI_Type_create_hvector:
    case Function::MPI_Type_create_subarray:
    case Function::MPI_Type_create_resized: return true;
    default: return false;
  }
}
template <class Count, class Lengths>
void AddMembers(TypeSignatureBuilder& ingredients, Count count, const Lengths* lengths, const MPI_Datatype* types) {
  for (Count i = 0; lengths && types && i < count && ingredients.known(); ++i)
    ingredients.Add(types[i], static_cast<std::uint64_t>(lengths[i]));
}
// How many of its one inner type a type has.
template <Function function, class All>
std::uint64_t Repeats(const All& all) {
  const auto count = std::get<0>(all);
  std::uint64_t repeats = static_cast<std::uint64_t>(count);
  if constexpr (HasLengths(function)) {
    repeats = 0;
    const auto* lengths = std::get<1>(all);
    for (auto i = count; lengths && i > 0; --i) repeats += static_cast<std::uint64_t>(lengths[i - 1]);
  } else if constexpr (LeadingCounts(function) > 1) {
    repeats *= static_cast<std::uint64_t>(std::get<1>(all));
  }
  return repeats;
}
template <Function function, class... A>
TypeSignatureBuilder IngredientsOf(A... arguments) {
  const auto all = std::tie(arguments...);
  constexpr Function kPlain = functions::WithSmallCounts(function);
  TypeSignatureBuilder ingredients(KeepsDense(function));
  if constexpr (kPlain == Function::MPI_Type_struct || kPlain == Function::MPI_Type_create_struct)
    AddMembers(ingredients, std::get<0>(all), std::get<1>(all), std::get<3>(all));
  else if constexpr (kPlain == Function::MPI_Type_dup || kPlain == Function::MPI_Type_create_resized)
    ingredients.Add(std::get<0>(all), 1);
  else if constexpr (LeadingCounts(function) > 0)
    ingredients.Add(std::get<sizeof...(A) - 2>(all), Repeats<function>(all));
  else
    ingredients.Fill(std::get<sizeof...(A) - 2>(all));  // subarrays, distributed arrays
  return ingredients;
}

struct TypeMakes {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    if constexpr (HasLengths(function))
      CheckLengths(call, std::get<0>(std::tie(arguments...)), std::get<1>(std::tie(arguments...)));
    if constexpr (LeadingCounts(function) > 0) CheckCount(call, std::get<0>(std::tie(arguments...)));
    if constexpr (LeadingCounts(function) > 1) CheckCount(call, std::get<1>(std::tie(arguments...)));
    const TypeSignatureBuilder ingredients = IngredientsOf<function>(arguments...);
    const int result = real(arguments...);
    if (result != MPI_SUCCESS) return Noted(call, result);
    const MPI_Datatype made = *Last(arguments...);
    LearnDatatype(call, made, ingredients);
    if constexpr (function == Function::MPI_Type_dup) {
      Datatype original;
      if (FindAnyDatatype(std::get<0>(std::tie(arguments...)), &original) && original.committed) CommitDatatype(made);
    }
    return Noted(call, result);
  }
};
// MPI_Type_get_contents and the like: the same handles once more, each to be freed, or new ones of MPI's own.
struct TypesGivenOut {
  template <Function, class Real, class... A>
  static int Intercept(Call&, Real real, A... arguments) {
    LoseSight(ObjectKind::kDatatype);
    return real(arguments...);
  }
};
struct TypeCommit {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Datatype* type) {
    if (Given(type, MPI_DATATYPE_NULL) == MPI_DATATYPE_NULL) Report(call, {.wrong = Wrong::kNullType});
    const int result = real(type);
    if (result == MPI_SUCCESS) CommitDatatype(*type);
    return Noted(call, result);
  }
};
struct TypeFree {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Datatype* type) {
    const MPI_Datatype before = Given(type, MPI_DATATYPE_NULL);
    if (before == MPI_DATATYPE_NULL)
      Report(call, {.wrong = Wrong::kNullObject});
    else if (IsPredefined(before))
      Report(call, {.wrong = Wrong::kPredefined});
    else
      CheckFreed(call, before);
    ForgetDatatype(call, before);
    return Noted(call, real(type));
  }

 private:
  static void CheckFreed(Call& call, MPI_Datatype type) {
    Datatype known;
    if (!InSight(ObjectKind::kDatatype) || !FindAnyDatatype(type, &known) || known.freed_at == 0) return;
    Report(call, {.wrong = Wrong::kFreedType, .made_at = known.freed_at, .made_by = Function::MPI_Type_free});
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
