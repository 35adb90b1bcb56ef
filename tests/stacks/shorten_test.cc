// C++ names as they stand in stacks.
#include "analyzer/stacks/names/shorten.h"

#include <gtest/gtest.h>

namespace ncclwatch::stacks {
namespace {

TEST(Shortened, ParametersAndReturnTypesGo) {
  EXPECT_EQ(Shortened("main"), "main");
  EXPECT_EQ(Shortened("ns::Run(int, char const*)"), "ns::Run");
  EXPECT_EQ(Shortened("ns::Loop::Run(int) const"), "ns::Loop::Run");
  EXPECT_EQ(Shortened("void ns::Call<int>(int)"), "ns::Call<int>");
  EXPECT_EQ(Shortened("std::pair<int, int> ns::Call<int>(int)"), "ns::Call<int>");
}

TEST(Shortened, LongTemplateArgumentsFold) {
  EXPECT_EQ(Shortened("std::vector<int, std::allocator<int> >::push_back(int&&)"), "std::vector<...>::push_back");
  EXPECT_EQ(Shortened("void ns::Loop<std::vector<int, std::allocator<int> > >::Run(int) const"), "ns::Loop<...>::Run");
  EXPECT_EQ(Shortened("ns::Call<float>(float)"), "ns::Call<float>");
}

TEST(Shortened, OperatorsStay) {
  EXPECT_EQ(Shortened("ns::A::operator()(int) const"), "ns::A::operator()");
  EXPECT_EQ(Shortened("ns::A::operator[](unsigned long)"), "ns::A::operator[]");
  EXPECT_EQ(Shortened("ns::operator<<(std::ostream&, ns::A const&)"), "ns::operator<<");
  EXPECT_EQ(Shortened("bool ns::operator< <int>(ns::A<int> const&)"), "ns::operator< <int>");
  EXPECT_EQ(Shortened("ns::A::operator->() const"), "ns::A::operator->");
  EXPECT_EQ(Shortened("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(Shortened("ns::A::operator bool() const"), "ns::A::operator bool");
  EXPECT_EQ(Shortened("ns::operator_like(int)"), "ns::operator_like");
}

TEST(Shortened, LocalThings) {
  EXPECT_EQ(Shortened("(anonymous namespace)::Wait(int)"), "(anonymous namespace)::Wait");
  EXPECT_EQ(Shortened("ns::Run(int)::{lambda(char)#2}::operator()(char) const"), "ns::Run::{lambda#2}::operator()");
  EXPECT_EQ(Shortened("ns::A::Run() const::Local::Go()"), "ns::A::Run::Local::Go");
  EXPECT_EQ(Shortened("ns::Run(int) [clone .cold]"), "ns::Run");
  EXPECT_EQ(Shortened("ns::Name[abi:cxx11](int)"), "ns::Name[abi:cxx11]");
}

TEST(Shortened, NoTextIsTooOdd) {
  for (const char* text :
       {"", "(", "<", "a<b", "a(b", "operator", "operator(", "{", "a::{lambda", " ", "::", "a<(b>c)"})
    EXPECT_LE(Shortened(text).size(), 16u) << text;
}

TEST(ReadableName, OnlyWhatIsMangled) {
  EXPECT_EQ(ReadableName("poll"), "poll");
  EXPECT_EQ(ReadableName("_ZN2ns4CallEi"), "ns::Call");
  EXPECT_EQ(ReadableName("_ZN"), "_ZN");
  EXPECT_EQ(ReadableName("_start"), "_start");
  EXPECT_EQ(ReadableName(""), "");
}

}  // namespace
}  // namespace ncclwatch::stacks
