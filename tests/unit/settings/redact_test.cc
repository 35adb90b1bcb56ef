#include "watchdog/settings/redact.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/made_secrets.h"

namespace ncclwatch::settings {
namespace {

using std::string_view_literals::operator""sv;

TEST(Redact, SecretNames) {
  for (const char* name : {"--password",    "-password",      "HF_TOKEN",
                           "--api-key",     "api_key",        "WANDB_API_KEY",
                           "apiKey",        "clientSecret",   "AWS_SECRET_ACCESS_KEY",
                           "PGPASSWORD",    "MYSQL_PWD",      "token",
                           "Authorization", "--authtoken",    "db.password",
                           "X-Api-Key",     "passphrase",     "--credentials",
                           "UCX_PASS",      "UCX_SECRET_KEY", "password2",
                           "AccountKey",    "sessionid",      "Cookie"})
    EXPECT_TRUE(IsSecretName(name, "")) << name;
  for (const char* name : {"--tokenizer", "--max-tokens", "--pad-token-id", "--key-file", "monkey", "--keyboard",
                           "--password-file", "--secretary", "--bypass", "--passes", "author", "", "-", "PATH",
                           "KeyError", "pad_token", "UCX_TLS", "NCCL_TOPO_FILE", "PYTHONPATH"})
    EXPECT_FALSE(IsSecretName(name, "")) << name;
  EXPECT_TRUE(IsSecretName("--license", "pin, License"));
  EXPECT_TRUE(IsSecretName("--my-own-thing", "my_*"));
  EXPECT_FALSE(IsSecretName("--mine", "my_*"));
}

struct Case {
  std::string_view text, redacted;
};
class Redact : public ::testing::TestWithParam<Case> {};
TEST_P(Redact, HidesSecretsAndNothingElse) { EXPECT_EQ(Redacted(GetParam().text, ""), GetParam().redacted); }

INSTANTIATE_TEST_SUITE_P(
    Commands, Redact,
    ::testing::Values(
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

INSTANTIATE_TEST_SUITE_P(
    WithinArguments, Redact,
    ::testing::Values(
        Case{"sh -c 'TOKEN=abc cmd'"sv, "sh -c 'TOKEN=*** cmd'"sv},
        Case{"bash\0-c\0python x.py --password x --lr 1"sv, "bash\0-c\0python x.py --password *** --lr 1"sv},
        Case{"env\0A_TOKEN=x y\0prog"sv, "env\0A_TOKEN=***\0prog"sv},
        Case{"curl\0-H\0Authorization: Basic eDp5\0h"sv, "curl\0-H\0Authorization: ***\0h"sv},
        Case{"curl -H 'X-Auth-Token: hunter2' h"sv, "curl -H 'X-Auth-Token: ***' h"sv},
        Case{"curl\0-u\0me:hunter2\0h"sv, "curl\0-u\0***\0h"sv},
        Case{"curl -sS -ume:hunter2 h"sv, "curl -sS -u*** h"sv},
        Case{"curl --user me:hunter2 h"sv, "curl --user *** h"sv},
        Case{"curl h | python -u train.py"sv, "curl h | python -u train.py"sv},
        Case{"mysql -phunter2 -P 3306; sshpass -p hunter2 ssh h -p 22"sv,
             "mysql -p*** -P 3306; sshpass -p *** ssh h -p ***"sv},
        Case{"docker login -u me -p hunter2"sv, "docker login -u me -p ***"sv},
        Case{"docker run -p 80:80 x"sv, "docker run -p 80:80 x"sv},
        Case{"srun --export=ALL,HF_TOKEN=hunter2,LR=3 ./a"sv, "srun --export=ALL,HF_TOKEN=***,LR=3 ./a"sv},
        Case{R"(x {\"password\": \"a b\", \"lr\": 1})"sv, R"(x {\"password\": \"***\", \"lr\": 1})"sv},
        Case{R"(subprocess.run(["a", "--password", "hunter2"]))"sv, R"(subprocess.run(["a", "--password", "***"]))"sv},
        Case{"Config(api_key=SecretStr('hunter2'), lr=1)"sv, "Config(api_key=SecretStr('***'), lr=1)"sv},
        Case{"Namespace(password='it\\'s', lr=1)"sv, "Namespace(password='***', lr=1)"sv},
        Case{"password=a,b!c rest"sv, "password=*** rest"sv},
        Case{"os.environ['HF_TOKEN'] = 'hunter2'"sv, "os.environ['HF_TOKEN'] = '***'"sv},
        Case{"  hf_token ................... hunter2"sv, "  hf_token ................... ***"sv}));

INSTANTIATE_TEST_SUITE_P(
    Urls, Redact,
    ::testing::Values(
        Case{"https://b.s3.amazonaws.com/k?X-Amz-Credential=AB%2Fus&X-Amz-Date=1&X-Amz-Signature=0f"sv,
             "https://b.s3.amazonaws.com/k?X-Amz-Credential=***&X-Amz-Date=1&X-Amz-Signature=***"sv},
        Case{"https://a.blob.core.windows.net/c?sv=2024&sp=r&sig=a%2Fb%3D"sv,
             "https://a.blob.core.windows.net/c?sv=2024&sp=r&sig=***"sv},
        Case{"https://storage.googleapis.com/b?GoogleAccessId=me@p.iam&Expires=1&Signature=ab/c=="sv,
             "https://storage.googleapis.com/b?GoogleAccessId=***&Expires=1&Signature=***"sv},
        Case{R"("https://h/c?sv=1\u0026sig=ab\u0026se=2")"sv, R"("https://h/c?sv=1\u0026sig=***\u0026se=2")"sv},
        Case{"https://h/?next=%2F%3Ftoken%3Dhunter2%26a%3D1"sv, "https://h/?next=%2F%3Ftoken%3D***%26a%3D1"sv},
        Case{"AccountName=a;AccountKey=ab/c==;EndpointSuffix=x"sv, "AccountName=a;AccountKey=***;EndpointSuffix=x"sv},
        Case{"postgres://me:p:w@h/db?sslmode=off"sv, "postgres://***@h/db?sslmode=off"sv}));

INSTANTIATE_TEST_SUITE_P(
    Logs, Redact,
    ::testing::Values(Case{"login: token: hunter2"sv, "login: token: ***"sv},
                      Case{"\x1b[31mtoken=hunter2\x1b[0m"sv, "\x1b[31mtoken=***"sv},
                      Case{"time per token: 5.3 ms, token: 12, pad_token='<pad>'"sv,
                           "time per token: 5.3 ms, token: 12, pad_token='<pad>'"sv},
                      Case{"forward pass: 12 ms, key: layers.0.weight, auth: ok"sv,
                           "forward pass: 12 ms, key: layers.0.weight, auth: ok"sv},
                      Case{R"("key": "opt_adamw_beta_2", for key: store_based_barrier_key:1 (world_size=8))"sv,
                           R"("key": "opt_adamw_beta_2", for key: store_based_barrier_key:1 (world_size=8))"sv},
                      Case{"key: 3f9a8b7c6d5e"sv, "key: ***"sv},
                      Case{"use_auth_token=True, token=None, password: null"sv,
                           "use_auth_token=True, token=None, password: null"sv},
                      Case{"std::token::Get() NCCL 2.28.9+cuda12.9 commId 0x8f3c09d2a1b45e77"sv,
                           "std::token::Get() NCCL 2.28.9+cuda12.9 commId 0x8f3c09d2a1b45e77"sv},
                      Case{"Cookie: a=b; c=d\nnext"sv, "Cookie: ***\nnext"sv},
                      Case{"Basic training of Bearer tokens"sv, "Basic training of Bearer tokens"sv},
                      Case{"sent Basic dXNlcjpwYXNz"sv, "sent Basic ***"sv},
                      Case{"password: 'never ended\nnext line"sv, "password: '***\nnext line"sv}));

// The text of a key is put together here: a scanner of repositories would report a whole one.
TEST(RedactTest, PrivateKeys) {
  const std::string begin =
                        "-----BEGIN RSA "
                        "PRIVATE KEY-----",
                    end =
                        "-----END RSA "
                        "PRIVATE KEY-----";
  EXPECT_EQ(Redacted("a\n" + begin + "\nMIIE+/=\nabc\n" + end + "\nb", ""), "a\n" + begin + "***" + end + "\nb");
  EXPECT_EQ(Redacted(begin + "\nMIIE+/=\n[rest", ""), begin + "***[rest");
  std::string text = begin + "\nMI\n" + end;
  HideSecrets(text.data(), text.size(), "");
  EXPECT_EQ(text, begin + "\n**\n" + end);
}

TEST(RedactTest, UsersNamesAreHiddenToo) {
  EXPECT_EQ(Redacted("./a --license X1 PIN=2", "license,p*"), "./a --license *** PIN=***");
}

TEST(RedactTest, ACommandLineIsMadeReadable) {
  EXPECT_EQ(CommandText("a\0--token\0x\0b\0"sv, true, ""), "a --token *** b");
  EXPECT_EQ(CommandText("a\0b\0redis://me:hunt"sv, false, ""), "a b");
  EXPECT_EQ(CommandText("redis://me:hunt"sv, false, ""), "");
  EXPECT_EQ(CommandText("", true, ""), "");
}

TEST(RedactTest, TokensOfKnownForms) {
  std::mt19937 random(1);
  constexpr std::string_view kAround[][2] = {
      {"", ""},          {"x ", " y"},      {"(", ")"},    {"\"", "\"},"},
      {"\\n", "\\n"},    {"a=", ";b"},      {"%20", "&c"}, {"\x1b[1;31m", "\x1b[0m"},
      {"\\u0022", "\\"}, {"in 'a/", "', b"}};
  for (const tests::Form& form : tests::kForms)
    for (const auto& [before, behind] : kAround) {
      const std::string secret = tests::MadeSecret(form, random);
      std::string text(before);
      text.append(secret).append(behind);
      const std::string once = Redacted(text, "");
      EXPECT_EQ(once.find(secret.substr(form.beginning.size())), std::string::npos) << text;
      const bool begins_in_a_way_of_its_own = form.beginning > "9";
      EXPECT_TRUE(once.starts_with(before) || !begins_in_a_way_of_its_own) << once;
      EXPECT_TRUE(once.ends_with(behind)) << once;
      EXPECT_EQ(Redacted(once, ""), once);
      std::string in_place = text;
      HideSecrets(in_place.data(), in_place.size(), "");
      EXPECT_EQ(in_place.find(secret.substr(form.beginning.size())), std::string::npos) << in_place;
      EXPECT_EQ(in_place.size(), text.size());
    }
}

// Names that are like the beginning of a token.
TEST(RedactTest, WordsAreNoTokens) {
  for (const std::string_view text :
       {"sk-learn-contrib-something-very-long", "hf_llama", "AKIA", "GPU-509665ad-b600-ac93-3616-d754b23d636d",
        "8f3c09d2a1b45e77", "commit 4b1d0c7a9e8f6d5c4b3a29180706f5e4d3c2b1a0", "s.append(x) s.12", "SKIP", "ACCURACY",
        "key-value", "npm_config_prefix", "pat.match", "r8_", "torch.nn.functional.scaled_dot_product_attention",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "EAAA", "t1.micro", "API-"})
    EXPECT_EQ(Redacted(text, ""), text);
}

TEST(RedactTest, NumbersStayNumbers) {
  std::string text = R"({"password": 12345, "lr": 1})";
  HideSecrets(text.data(), text.size(), "");
  EXPECT_EQ(text, R"({"password": 00000, "lr": 1})");
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
