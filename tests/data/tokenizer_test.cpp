#include "data/tokenizer.hpp"

#include <random>

#include "data/files.hpp"
#include "data/python_tool.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;

TEST(ByteTokenizer, GivesBackAnyBytes) {
  const auto t = make_tokenizer("byte");
  EXPECT_EQ(t->vocab(), 257);
  EXPECT_EQ(t->end_of_text(), 256);
  std::mt19937_64 gen(test::test_seed());
  for (int i = 0; i < 50; ++i) {
    std::string text(gen() % 1000, '\0');
    for (char& c : text) c = char(gen());
    std::vector<std::int32_t> tokens = t->encode(text);
    ASSERT_EQ(tokens.size(), text.size());
    tokens.push_back(256);
    ASSERT_EQ(t->decode(tokens), text);
  }
  for (const std::int32_t bad : {-1, 257})
    EXPECT_HAS(error_of([&] { t->decode({&bad, 1}); }), fmt::format("token {}", bad));
}

TEST(Tokenizer, UnknownNamesAreErrors) {
  EXPECT_HAS(error_of([] { make_tokenizer("bytes"); }), "'bytes' is neither");
  for (const char* name : {"/nowhere/tokenizer.json", "/nowhere/tokenizer.model"})
    EXPECT_HAS(error_of([&] { make_tokenizer(name); }), "neither");
  test::TemporaryFolder folder;
  EXPECT_HAS(error_of([&] { make_tokenizer(test::write_bytes(folder / "t.json", "{}")); }), "t.bytes.json' is missing");
  EXPECT_HAS(error_of([&] { make_tokenizer(test::write_bytes(folder / "t.model", "x")); }),
             "t.model.bytes.json' is missing");
}

TEST(Tokenizer, TheDummyPrefixIsDroppedWhereATextBegins) {
  test::TemporaryFolder folder;
  test::write_bytes(
      folder / "t.model.bytes.json",
      R"({"format": "mylos-token-bytes", "version": 1, "end_of_text": 0, "dummy_prefix": true, "tokens": ["", "2061", "20", "2020", "62"]})");
  const auto t = make_tokenizer(test::write_bytes(folder / "t.model", ""));
  const auto decode = [&](std::vector<std::int32_t> tokens, std::int32_t before = -1) {
    return t->decode(tokens, before);
  };
  EXPECT_EQ(decode({1, 1, 2, 0, 1, 0, 2, 4}), "a a ab");
  EXPECT_EQ(decode({3, 0, 3, 3, 0, 4, 1}), "    b a");
  EXPECT_EQ(decode({1, 2}, 4), " a ");
  EXPECT_EQ(decode({1, 2}, 0), "a ");
  EXPECT_HAS(error_of([&] { decode({1}, 5); }), "token 5");
}

TEST(TokenBytes, ReadsItsTable) {
  const TokenBytes t = parse_token_bytes(
      R"({"format": "mylos-token-bytes", "version": 1, "end_of_text": 0, "tokens": ["", "21", "c3a900"]})", "t");
  EXPECT_EQ(t.tokens, (std::vector<std::string>{"", "!", std::string("\xc3\xa9\0", 3)}));
  EXPECT_EQ(t.end_of_text, 0);
  EXPECT_EQ(
      parse_token_bytes(R"({"format": "mylos-token-bytes", "version": 1, "end_of_text": null, "tokens": ["21"]})", "t")
          .end_of_text,
      -1);
}

TEST(TokenBytes, RefusesEverythingElse) {
  const std::string start = R"({"format": "mylos-token-bytes", "version": 1, )";
  for (const std::string& json :
       {std::string(""), std::string("[]"), std::string("{}"),
        std::string(R"({"format": "mylos-token-bytes", "version": 2, "tokens": ["21"]})"), start + R"("tokens": []})",
        start + R"("tokens": "21"})", start + R"("tokens": [21]})", start + R"("tokens": ["2"]})",
        start + R"("tokens": ["2G"]})", start + R"("tokens": ["2A"]})",
        start + R"("end_of_text": 1, "tokens": ["21"]})", start + R"("end_of_text": -1, "tokens": ["21"]})",
        start + R"("dummy_prefix": 1, "tokens": ["21"]})", start + R"("lossy": true, "tokens": ["21"]})",
        start + R"("end_of_text": "0", "tokens": ["21"]})", start + R"("tokens": ["21")", std::string(100'000, '[')})
    EXPECT_HAS(error_of([&] { parse_token_bytes(json, "t.json"); }), "t.json") << json.substr(0, 100);
}

TEST(RunProgram, PassesArgumentsAndStreamsAsTheyAre) {
  const std::string big(1 << 20, 'x');
  EXPECT_EQ(run_program({"cat"}, big), big);
  EXPECT_EQ(run_program({"printf", "%s|", "$HOME; echo *", "a b"}, ""), "$HOME; echo *|a b|");
  EXPECT_HAS(error_of([] { run_program({"no-such-program-of-mylos"}, ""); }), "no-such-program-of-mylos");
  EXPECT_HAS(error_of([] {
               run_program({"sh", "-c", "echo first >&2; echo the reason >&2; exit 3"}, "");
             }),
             "the reason");
  EXPECT_HAS(error_of([] { run_program({"sh", "-c", "kill -9 $$"}, ""); }), "signal 9");
  EXPECT_HAS(error_of([] { run_program({"false"}, ""); }), "'false' ended with status 1 and said nothing");
  EXPECT_HAS(error_of([] { run_program({"false", "tools/tokenizer.py"}, ""); }), "MYLOS_PYTHON names another");
}

}  // namespace
}  // namespace mylos::data
