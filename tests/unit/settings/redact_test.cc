#include "watchdog/settings/redact.h"

#include <gtest/gtest.h>

#include <random>

namespace ncclwatch::settings {
namespace {

using std::string_view_literals::operator""sv;

TEST(Redact, SecretNames) {
  for (const char* name : {"--password", "-password", "HF_TOKEN", "--api-key", "api_key", "WANDB_API_KEY", "apiKey",
                           "clientSecret", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MYSQL_PWD", "token", "Authorization",
                           "--authtoken", "db.password", "X-Api-Key", "passphrase", "--credentials"})
    EXPECT_TRUE(IsSecretName(name, "")) << name;
  for (const char* name : {"--tokenizer", "--max-tokens", "--pad-token-id", "--key-file", "monkey", "--keyboard",
                           "--password-file", "--secretary", "--bypass", "--passes", "author", "", "-", "PATH"})
    EXPECT_FALSE(IsSecretName(name, "")) << name;
  EXPECT_TRUE(IsSecretName("--license", "pin, License"));
  EXPECT_TRUE(IsSecretName("--my-own-thing", "my_*"));
  EXPECT_FALSE(IsSecretName("--mine", "my_*"));
}

struct Case {
  std::string_view text, redacted;
};
class Redact : public testing::TestWithParam<Case> {};
TEST_P(Redact, HidesSecretsAndNothingElse) { EXPECT_EQ(Redacted(GetParam().text, ""), GetParam().redacted); }

INSTANTIATE_TEST_SUITE_P(
    Commands, Redact,
    testing::Values(
        Case{"train.py\0--api-key=hunter2\0--lr\0001"sv, "train.py\0--api-key=***\0--lr\0001"sv},
        Case{"train.py\0--password\0my pass phrase\0--lr"sv, "train.py\0--password\0***\0--lr"sv},
        Case{"a\0--password=my pass phrase\0b"sv, "a\0--password=***\0b"sv},
        Case{"env\0HF_TOKEN=hunter2\0WANDB_API_KEY=a,b\0./a"sv, "env\0HF_TOKEN=***\0WANDB_API_KEY=***\0./a"sv},
        Case{"./a --token hunter2 --verbose"sv, "./a --token *** --verbose"sv},
        Case{"./a --use-token --verbose"sv, "./a --use-token --verbose"sv}, Case{"./a --token"sv, "./a --token"sv},
        Case{"./a --token="sv, "./a --token="sv},
        Case{"./a --tokenizer llama --max-tokens 5 --key-file k"sv,
             "./a --tokenizer llama --max-tokens 5 --key-file k"sv},
        Case{"sh\0-c\0export DB_PASSWORD='a b'; ./train --x=1"sv, "sh\0-c\0export DB_PASSWORD='***'; ./train --x=1"sv},
        Case{"sh\0-c\0SECRET=abc ./train"sv, "sh\0-c\0SECRET=***"sv},
        Case{"sh\0-c\0exec ./train --secret abc --lr 1"sv, "sh\0-c\0exec ./train --secret *** --lr 1"sv},
        Case{"--store=redis://me:hunter2@h:1/2"sv, "--store=redis://***@h:1/2"sv},
        Case{"https://hunter2@h/path@1"sv, "https://***@h/path@1"sv}, Case{"https://h/path@1"sv, "https://h/path@1"sv},
        Case{"http://h/x?a=1&token=hunter2&b=2"sv, "http://h/x?a=1&token=***&b=2"sv},
        Case{R"(--json={"api_key": "hunter2", "lr": 1})"sv, R"(--json={"api_key": "***", "lr": 1})"sv},
        Case{"curl\0-H\0Authorization: Bearer hunter2\0h"sv, "curl\0-H\0Authorization: ***\0h"sv},
        Case{"curl -H Authorization: Bearer hunter2 h"sv, "curl -H Authorization: *** h"sv},
        Case{"python -c x=hf_abcdefghijklmnopqrstuvwxyz"sv, "python -c x=***"sv},
        Case{"model=hf_llama sk-x"sv, "model=hf_llama sk-x"sv}, Case{"tcp://h:1 token://x"sv, "tcp://h:1 token://x"sv},
        Case{""sv, ""sv}, Case{"="sv, "="sv}, Case{"--password\0"sv, "--password\0"sv}));

TEST(RedactTest, UsersNamesAreHiddenToo) {
  EXPECT_EQ(Redacted("./a --license X1 PIN=2", "license,p*"), "./a --license *** PIN=***");
}

TEST(RedactTest, ACommandLineIsMadeReadable) {
  EXPECT_EQ(CommandText("a\0--token\0x\0b\0"sv, true, ""), "a --token *** b");
  EXPECT_EQ(CommandText("a\0b\0redis://me:hunt"sv, false, ""), "a b");
  EXPECT_EQ(CommandText("redis://me:hunt"sv, false, ""), "");
  EXPECT_EQ(CommandText("", true, ""), "");
}

TEST(RedactTest, SurvivesAnyBytes) {
  std::mt19937 random(1);
  constexpr std::string_view kPieces[] = {"--token", "=", ":",   "://", "@",    "\"", "'",
                                          "\0"sv,    " ", "key", "x",   "\xff", "-"};
  for (int run = 0; run < 20000; ++run) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += kPieces[random() % std::size(kPieces)];
    const std::string once = Redacted(text, "x*");
    EXPECT_LE(once.size(), text.size() + 36);
  }
}

}  // namespace
}  // namespace ncclwatch::settings
