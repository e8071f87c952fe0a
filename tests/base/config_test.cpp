#include "base/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.hpp"

namespace mylos {
namespace {

enum class Kind { dense, moe };

struct Things {
  std::int64_t steps = 100;
  double rate = 1e-3;
  bool fused = true;
  std::string name = "first";
  std::vector<std::string> files;
  Kind kind = Kind::dense;
  std::int64_t dim = 64;

  std::vector<ConfigSection> sections() {
    return {{"train", "the run",
             [this](ConfigBinder& k) {
               k.integer("steps", steps, 1, 1000000, "number of steps");
               k.real("rate", rate, 0.0, 10.0, "learning rate");
               k.flag("fused", fused, "fused or not");
               k.text("name", name, "what it is called");
               k.texts("files", files, "what it reads");
             }},
            {"model", "the model", [this](ConfigBinder& k) {
               k.choice("kind", kind, {"dense", "moe"}, "which");
               k.integer("dim", dim, 1, std::numeric_limits<std::int64_t>::max(), "width");
             }}};
  }
};

// Tables below a section: some with names, some in a list.
struct Animal {
  double weight = -1;
  std::vector<std::string> food;
};
void bind(ConfigBinder& k, Animal& a) {
  k.real("weight", a.weight, -1, std::numeric_limits<double>::infinity(), "in kg");
  k.texts("food", a.food, "what it eats");
}
struct Visit {
  std::int64_t day = 0;
  std::vector<std::pair<std::string, double>> doses;
};
void bind(ConfigBinder& k, Visit& v) {
  k.integer("day", v.day, 0, 365, "of the year");
  k.reals("doses", v.doses, 0, 10, "mg of each drug");
}
struct Zoo {
  std::string name = "zoo";
  std::vector<std::pair<std::string, Animal>> animals;
  std::vector<Visit> visits;

  std::vector<ConfigSection> sections() {
    return {{"zoo", "animals", [this](ConfigBinder& k) {
               k.text("name", name, "of the zoo");
               k.named("animals", animals, "those that live there");
               k.list("visits", visits, "of the vet");
             }}};
  }
};

class Config : public ::testing::Test {
 protected:
  Config() : folder_(std::filesystem::temp_directory_path() / ("mylos_config_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Config() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      Things t;
      read_config(text.empty() ? "" : file("c.toml", text), overrides, t.sections());
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  std::string zoo_error(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      Zoo z;
      read_config(text.empty() ? "" : file("zoo.toml", text), overrides, z.sections());
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "'" << part << "' is not in: " << (text)

TEST_F(Config, ReadsEveryType) {
  Things t;
  read_config(file("a.toml",
                   "[train]\nsteps = 7\nrate = 2\nfused = false\nname = \"x\\ty\"\nfiles = [\"a\", "
                   "\"b\"]\n[model]\nkind='moe'\n"),
              {}, t.sections());
  EXPECT_EQ(t.steps, 7);
  EXPECT_EQ(t.rate, 2.0);
  EXPECT_FALSE(t.fused);
  EXPECT_EQ(t.name, "x\ty");
  EXPECT_EQ(t.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(t.kind, Kind::moe);
  EXPECT_EQ(t.dim, 64) << "a key that is not given keeps its default";
}

TEST_F(Config, OverridesWinAndBareWordsAreText) {
  Things t;
  read_config(file("a.toml", "[train]\nsteps = 7\n"),
              {"train.steps=9", "train.rate=3e-4", "train.name=7", "train.files=data/x-*.bin", "model.kind=moe",
               "train.fused=false"},
              t.sections());
  EXPECT_EQ(t.steps, 9);
  EXPECT_EQ(t.rate, 3e-4);
  EXPECT_EQ(t.name, "7");
  EXPECT_EQ(t.files, (std::vector<std::string>{"data/x-*.bin"}));
  EXPECT_EQ(t.kind, Kind::moe);
  EXPECT_FALSE(t.fused);
  read_config("", {"train.files=[\"p\", \"q\"]", "train.name=\"\"", "train.name=2026-01-02"}, t.sections());
  EXPECT_EQ(t.files.size(), 2u);
  EXPECT_EQ(t.name, "2026-01-02");
}

TEST_F(Config, IncludeIsReadFirst) {
  file("base.toml", "[train]\nsteps = 5\nname = \"base\"\n[model]\ndim = 8\n");
  Things t;
  read_config(file("top.toml", "include = \"base.toml\"\n[train]\nname = \"top\"\n"), {}, t.sections());
  EXPECT_EQ(t.steps, 5);
  EXPECT_EQ(t.name, "top");
  EXPECT_EQ(t.dim, 8);
  EXPECT_HAS(error("include = \"c.toml\"\n"), "includes");
  EXPECT_HAS(error("include = \"gone.toml\"\n"), "gone.toml' does not exist");
  EXPECT_HAS(error("include = 3\n"), "include must be");
}

TEST_F(Config, UnknownNamesSuggestTheNearest) {
  EXPECT_HAS(error("[train]\nstep = 3\n"), "c.toml:2: unknown key train.step; did you mean train.steps?");
  EXPECT_HAS(error("[trian]\nsteps = 3\n"), "unknown section [trian]; did you mean [train]?");
  EXPECT_HAS(error("[train]\ndim = 3\n"), "did you mean model.dim?");
  EXPECT_HAS(error("steps = 3\n"), "write it under [train]");
  EXPECT_HAS(error("[zzzzzzzzz]\n"), "the sections are train, model");
  EXPECT_HAS(error("[train]\nqqqqqqqqqq = 1\n"), "[train] has steps, rate");
  EXPECT_HAS(error("", {"train.stps=3"}), "did you mean train.steps?");
  EXPECT_HAS(error("[model]\nkind = \"mo\"\n"), "must be one of dense, moe (did you mean 'moe'?)");
  EXPECT_HAS(error("train = 3\n"), "[train] is a section, but is given as the integer 3");
  EXPECT_HAS(error("[[train]]\nsteps = 3\n"), "[train] is a section, but is given as a list");
  EXPECT_HAS(error("[train.steps]\nx = 3\n"), "train.steps must be an integer, but is a table");
}

TEST_F(Config, WrongTypes) {
  EXPECT_HAS(error("[train]\nsteps = 3.0\n"), "train.steps must be an integer, but is the real number 3.0");
  EXPECT_HAS(error("[train]\nsteps = \"3\"\n"), "train.steps must be an integer, but is the text \"3\"");
  EXPECT_HAS(error("[train]\nrate = true\n"), "train.rate must be a real number, but is the flag true");
  EXPECT_HAS(error("[train]\nfused = 1\n"), "train.fused must be true or false, but is the integer 1");
  EXPECT_HAS(error("[train]\nname = 1\n"), "train.name must be a text in quotes, but is the integer 1");
  EXPECT_HAS(error("[train]\nfiles = 1\n"), "train.files must be a list of texts in quotes, but is the integer 1");
  EXPECT_HAS(error("[train]\nfiles = [\"a\", 1]\n"), "train.files[1] must be a text in quotes, but is the integer 1");
  EXPECT_HAS(error("[train]\nfiles = [\"a\\u0000b\"]\n"), "train.files[0] has a zero byte");
  EXPECT_HAS(error("[train]\nname = 2026-01-01\n"), "but is a date or time");
  EXPECT_HAS(error("", {"train.steps=many"}), "train.steps must be an integer, but is the text \"many\"");
  EXPECT_HAS(error("[train]\nname = \"a\\u0000b\"\n"), "zero byte");
}

TEST_F(Config, Bounds) {
  EXPECT_HAS(error("[train]\nsteps = 0\n"), "train.steps is 0; it must be at least 1");
  EXPECT_HAS(error("[train]\nsteps = 1000001\n"), "it must be at most 1000000");
  EXPECT_HAS(error("[train]\nrate = nan\n"), "train.rate is not a number");
  EXPECT_HAS(error("[train]\nrate = inf\n"), "train.rate is inf; it must be at most 10");
  EXPECT_HAS(error("[train]\nrate = -1e-9\n"), "it must be at least 0");
  EXPECT_HAS(error("[train]\nsteps = 99999999999999999999\n"), "c.toml:2");
}

TEST_F(Config, BadFilesAndOverrides) {
  Things t;
  EXPECT_THROW(read_config((folder_ / "none.toml").string(), {}, t.sections()), Error);
  EXPECT_THROW(read_config(folder_.string(), {}, t.sections()), Error);
  EXPECT_HAS(error("[train\nsteps = 1\n"), "c.toml:1");
  EXPECT_HAS(error("[train]\nsteps = 1\nsteps = 2\n"), "c.toml:3");
  EXPECT_HAS(error("\xff\xfe = 1\n"), "c.toml:1");
  std::string deep = "steps";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  EXPECT_HAS(error("[train]\n" + deep + " = 1\n"), "a key with more than 1000 dots");
  EXPECT_HAS(error("", {"train.steps={" + deep + "=1}"}), "a key with more than 1000 dots");
  EXPECT_HAS(error("", {"train.steps"}), "write section.key=value");
  EXPECT_HAS(error("", {"steps=3"}), "section.key");
  EXPECT_HAS(error("", {"train.a.b=3"}), "section.key");
  EXPECT_HAS(error("", {"train.steps="}), "no value");
  EXPECT_HAS(error("", {"train.files=[\"a\""}), "not valid TOML");
  EXPECT_HAS(error("", {"train.name=\xff"}), "UTF-8");
  EXPECT_HAS(error("", {"train.steps=1\n[model]\ndim=2"}), "train.steps");
}

TEST_F(Config, WrittenConfigurationReadsBackToTheBit) {
  for (const double rate : {1e-3, 0.1, 1.0 / 3.0, 5e-324, 3.0, 0.0, 9.999999999999998}) {
    Things t;
    t.rate = rate;
    t.name = "quote \" backslash \\ tab \t newline \n \x01 \x7f grüße";
    t.files = {"a", "", "x y"};
    t.kind = Kind::moe;
    t.dim = std::numeric_limits<std::int64_t>::max();
    Things back;
    const std::string text = write_config(t.sections());
    read_config(file("w.toml", text), {}, back.sections());
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back.rate), std::bit_cast<std::uint64_t>(rate)) << text;
    EXPECT_EQ(back.name, t.name);
    EXPECT_EQ(back.files, t.files);
    EXPECT_EQ(back.kind, t.kind);
    EXPECT_EQ(back.dim, t.dim);
    EXPECT_EQ(write_config(back.sections()), text);
  }
}

TEST_F(Config, ListsEveryKey) {
  Things t;
  const auto keys = list_config(t.sections());
  ASSERT_EQ(keys.size(), 7u);
  EXPECT_EQ(keys[0].section, "train");
  EXPECT_EQ(keys[0].default_value, "100");
  EXPECT_EQ(keys[0].bounds, "1 to 1000000");
  EXPECT_EQ(keys[1].default_value, "0.001");
  EXPECT_EQ(keys[5].bounds, "\"dense\", \"moe\"");
  EXPECT_EQ(keys[6].bounds, "at least 1");
}

TEST_F(Config, TablesWithNamesAndInLists) {
  Zoo z;
  read_config(file("z.toml",
                   "[zoo]\nname = \"a\"\n[zoo.animals.yak]\nweight = 500\n[zoo.animals.ant-2]\nfood = \"crumbs\"\n"
                   "[[zoo.visits]]\nday = 3\ndoses = {b = 1, a = 0.5}\n[[zoo.visits]]\n"),
              {"zoo.animals.yak.food=hay", "zoo.animals.bee.weight=1e-4", "zoo.animals.bee.food=[]"}, z.sections());
  ASSERT_EQ(z.animals.size(), 3u);
  EXPECT_EQ(z.animals[0].first, "ant-2");
  EXPECT_EQ(z.animals[0].second.weight, -1);
  EXPECT_EQ(z.animals[0].second.food, (std::vector<std::string>{"crumbs"}));
  EXPECT_EQ(z.animals[1].first, "bee");
  EXPECT_EQ(z.animals[1].second.weight, 1e-4);
  EXPECT_EQ(z.animals[2].second.weight, 500);
  EXPECT_EQ(z.animals[2].second.food, (std::vector<std::string>{"hay"}));
  ASSERT_EQ(z.visits.size(), 2u);
  EXPECT_EQ(z.visits[0].day, 3);
  EXPECT_EQ(z.visits[0].doses, (std::vector<std::pair<std::string, double>>{{"a", 0.5}, {"b", 1.0}}));
  EXPECT_TRUE(z.visits[1].doses.empty());

  Zoo back;
  const std::string text = write_config(z.sections());
  read_config(file("w.toml", text), {}, back.sections());
  EXPECT_EQ(write_config(back.sections()), text);
  EXPECT_EQ(back.animals.size(), 3u);
  EXPECT_EQ(back.visits[0].doses, z.visits[0].doses);
  Zoo none;
  EXPECT_EQ(write_config(none.sections()), "[zoo]\nname = \"zoo\"\n");

  const auto keys = list_config(z.sections());
  ASSERT_EQ(keys.size(), 5u);
  EXPECT_EQ(keys[1].key, "animals.NAME.weight");
  EXPECT_EQ(keys[1].default_value, "-1.0") << "of a new one";
  EXPECT_EQ(keys[4].key, "visits[].doses");
}

TEST_F(Config, TablesOfAnIncludedFileAreMerged) {
  file("base.toml", "[zoo.animals.yak]\nweight = 1\n[zoo.animals.bee]\nweight = 2\n");
  Zoo z;
  read_config(file("top.toml", "include = \"base.toml\"\n[zoo.animals.yak]\nweight = 3\n"), {}, z.sections());
  ASSERT_EQ(z.animals.size(), 2u);
  EXPECT_EQ(z.animals[1].second.weight, 3);
}

TEST_F(Config, ErrorsInTablesNameTheirKey) {
  EXPECT_HAS(zoo_error("[zoo.animals.yak]\nwieght = 1\n"),
             "zoo.toml:2: unknown key zoo.animals.yak.wieght; did you mean zoo.animals.yak.weight?");
  EXPECT_HAS(zoo_error("[zoo.animal.yak]\n"), "unknown key zoo.animal; did you mean zoo.animals?");
  EXPECT_HAS(zoo_error("[zoo]\nanimals = 3\n"), "must be tables [zoo.animals.NAME], but is the integer 3");
  EXPECT_HAS(zoo_error("[zoo.animals]\nyak = 3\n"), "zoo.animals.yak must be a table");
  EXPECT_HAS(zoo_error("[zoo.animals.\"a b\"]\n"), "'a b' is no name");
  EXPECT_HAS(zoo_error("[zoo.visits]\nday = 3\n"), "zoo.visits must be a list of tables [[zoo.visits]]");
  EXPECT_HAS(zoo_error("[[zoo.visits]]\n[[zoo.visits]]\nday = 400\n"), "zoo.visits[1].day is 400");
  EXPECT_HAS(zoo_error("[[zoo.visits]]\ndoses = {a = 11}\n"), "zoo.visits[0].doses.a is 11; it must be at most 10");
  EXPECT_HAS(zoo_error("[[zoo.visits]]\ndoses = {a = true}\n"), "doses.a must be a real number");
  EXPECT_HAS(zoo_error("[[zoo.visits]]\ndoses = [1]\n"), "a table of names and real numbers");
  EXPECT_HAS(zoo_error("", {"zoo.animals.yak.wight=1"}), "did you mean zoo.animals.yak.weight?");
  EXPECT_HAS(zoo_error("", {"zoo.name.yak.weight=1"}), "section.key");
  EXPECT_HAS(zoo_error("", {"zoo.animals..weight=1"}), "section.key");
  EXPECT_HAS(zoo_error("[zoo]\nanimals = 3\n", {"zoo.animals.yak.weight=1"}), "'animals' is a value");
}

}  // namespace
}  // namespace mylos
