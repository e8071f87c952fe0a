#include "measure/inspect.hpp"

#include <hdf5.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/store.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "checkpoint/weights.hpp"
#include "measure/sample_bundle.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::error_of;
using test::SampleBundle;
using test::TemporaryFolder;
using Json = nlohmann::json;

void write_bundle(const std::string& path) {
  SampleBundle s(path);
  s.steps(1, 12);
  s.record->evaluation({.step = 12, .loss = 3, .bits_per_byte = std::nan(""), .tokens = 10, .time_s = 1});
  s.bundle.finish();
}

// Changes the finished file through HDF5, so that all checksums but mylos' own fit again.
void alter(const std::string& path, const std::function<void(hid_t)>& work) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  work(file);
  H5Fclose(file);
}

bool has_error(const std::vector<Finding>& findings, const std::string& where, const std::string& what) {
  for (const Finding& f : findings)
    if (f.error && f.where == where && f.what.find(what) != std::string::npos) return true;
  return false;
}

TEST(Inspect, JsonAndTextTellTheSame) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  write_bundle(path);
  const Json j = Json::parse(inspect_json(path));
  EXPECT_EQ(j["attributes"]["schema"], "mylos-bundle");
  EXPECT_EQ(j["attributes"]["complete"], true);
  EXPECT_EQ(j["datasets"]["/samples/steps/loss"]["shape"][0], 12);
  EXPECT_EQ(j["datasets"]["/samples/steps/loss"]["first"], 5.0);
  EXPECT_EQ(j["datasets"]["/samples/steps/loss"]["units"], "nat/token");
  EXPECT_EQ(j["datasets"]["/summary/tokens_per_s"]["value"], 8192.0);
  EXPECT_TRUE(j["datasets"]["/summary/validation_bits_per_byte_last"]["value"].is_null());  // NaN
  EXPECT_EQ(j["datasets"]["/config/toml"]["value"], test::kSampleConfig);
  EXPECT_EQ(j["groups"]["/hardware"]["device"], "NVIDIA H200");
  const std::string text = inspect_text(path);
  EXPECT_CONTAINS(text, "mylos-bundle");
  EXPECT_CONTAINS(text, "8192 tokens/s");
  EXPECT_CONTAINS(text, "[12] first 5, last 1.44338");
}

TEST(Inspect, WeightFilesToo) {
  const TemporaryFolder folder;
  const std::string path = folder / "w.h5";
  const float values[6] = {};
  checkpoint::write_weights(path, {{"norm.weight", DType::f32, {2, 3}}}, std::vector<const void*>{values},
                            {7, "[model]\n", {}});
  EXPECT_TRUE(validate(path).empty());
  const Json j = Json::parse(inspect_json(path));
  EXPECT_EQ(j["attributes"]["kind"], "checkpoint");
  EXPECT_EQ(j["datasets"]["/weights/norm.weight"]["shape"], Json({2, 3}));
}

TEST(Inspect, ATextCannotSteerTheTerminal) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  checkpoint::Writer w(path);
  w.attribute("/", "note", std::string("\x1b[2J\xff evil"));
  w.text("/text", "a\x1b]0;x\x07", {"1", "\x1b[31m"});
  w.commit();
  const std::string text = inspect_text(path);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_TRUE(Json::accept(inspect_json(path)));
}

TEST(Validate, NamesEveryMissingPart) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  for (const char* object :
       {"/provenance", "/hardware", "/config", "/plan", "/samples", "/telemetry", "/derived", "/summary",
        "/samples/steps", "/samples/evaluation", "/config/toml", "/plan/json", "/provenance/diff",
        "/provenance/command_line", "/samples/steps/loss", "/samples/steps/step", "/summary/tokens_per_s"}) {
    write_bundle(path);
    alter(path, [&](hid_t file) { H5Ldelete(file, object, H5P_DEFAULT); });
    EXPECT_TRUE(has_error(validate(path), object, "missing")) << object;
  }
  for (const char* name : {"schema", "schema_version", "kind", "created", "complete", "status"}) {
    write_bundle(path);
    alter(path, [&](hid_t file) { H5Adelete(file, name); });
    const std::string where = std::string("/:") + name;
    const auto findings = validate(path);
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.error && f.where == where;
    })) << name;
  }
  for (const char* name : {"units", "description", "sha256", "dtype"}) {
    write_bundle(path);
    alter(path, [&](hid_t file) { H5Adelete_by_name(file, "/samples/steps/loss", name, H5P_DEFAULT); });
    EXPECT_TRUE(has_error(validate(path), std::string("/samples/steps/loss:") + name, "needs this attribute")) << name;
  }
}

TEST(Validate, FindsChangedValues) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  write_bundle(path);
  alter(path, [](hid_t file) {
    const double better[12] = {};
    const hid_t set = H5Dopen2(file, "/samples/steps/loss", H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, better);
    H5Dclose(set);
  });
  EXPECT_TRUE(has_error(validate(path), "/samples/steps/loss", "damaged"));
  EXPECT_CONTAINS(error_of([&] { inspect_json(path); }), "damaged");
}

TEST(Validate, FindsUnequalLengthsWrongTypesAndBadJson) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  const checkpoint::About about{"1", "for the test"};
  {
    checkpoint::Writer w(path);
    w.attribute("/", "schema", std::string("other"));
    w.attribute("/", "schema_version", std::string("2.0.0"));
    w.attribute("/", "kind", std::string("train"));
    w.attribute("/", "created", std::string("yesterday"));
    w.attribute("/", "complete", std::int64_t(1));
    w.reals("/samples/steps/step", {1, 2, 2}, about);
    w.reals("/samples/steps/loss", {1, 2}, about);
    w.texts("/samples/steps/words", {"a", "b", "c"}, about);
    w.reals("/telemetry/gpu/power", {1, 2}, about);
    w.reals("/telemetry/gpu/clock", {1}, about);
    w.text("/plan/json", "{\"a\": ", about);
    w.real("/config/toml", 3, about);
    w.text("/config/words", "\xff\xfe", about);
    w.commit();
  }
  const auto f = validate(path);
  EXPECT_TRUE(has_error(f, "/:schema", "'other'"));
  EXPECT_TRUE(has_error(f, "/:schema_version", "'2.0.0'"));
  EXPECT_TRUE(has_error(f, "/:created", "'yesterday'"));
  EXPECT_TRUE(has_error(f, "/:complete", "wrong type"));
  EXPECT_TRUE(has_error(f, "/samples/steps/step", "2 of the same table") ||
              has_error(f, "/samples/steps/step", "rows"));
  EXPECT_TRUE(has_error(f, "/samples/steps/step", "steps must rise"));
  EXPECT_TRUE(has_error(f, "/samples/steps/words", "must be f64"));
  EXPECT_TRUE(has_error(f, "/telemetry/gpu/power", "rows"));
  EXPECT_TRUE(has_error(f, "/plan/json", "not JSON"));
  EXPECT_TRUE(has_error(f, "/config/toml", "wrong type"));
  EXPECT_TRUE(has_error(f, "/config/words", "UTF-8"));
}

TEST(Validate, DamagedFilesGiveFindingsNeverACrash) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  write_bundle(path);
  const auto whole = test::file_bytes(path);
  const std::string before = inspect_json(path);
  std::mt19937_64 random(test::test_seed());
  int found = 0;
  for (int i = 0; i < 120; ++i) {
    auto bytes = whole;
    if (i % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      for (int flips = i % 3 == 1 ? 1 : 40; flips > 0; --flips) bytes[random() % bytes.size()] = char(random());
    }
    test::write_file(path, bytes);
    const auto findings = validate(path);
    const bool error = std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.error; });
    found += error;
    if (!error) {  // what was hit holds nothing
      EXPECT_EQ(inspect_json(path), before);
    }
  }
  EXPECT_GT(found, 60);
}

}  // namespace
}  // namespace mylos::measure
