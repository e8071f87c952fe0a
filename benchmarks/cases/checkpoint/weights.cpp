// Weight files: written (synced and renamed), read with their checksums, and verified without keeping what is read.
#include "checkpoint/weights.hpp"

#include <random>

#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/corpus.hpp"

namespace mylos::bench {
namespace {

using checkpoint::WeightInfo;

struct Weights {
  Folder folder = {};
  std::vector<WeightInfo> infos = {};
  std::vector<std::vector<std::uint16_t>> tensors = {};  // bf16

  explicit Weights(std::int64_t bytes) {
    constexpr std::int64_t kTensors = 8, kColumns = 1024;
    std::mt19937_64 random(1);
    for (std::int64_t i = 0; i < kTensors; ++i) {
      infos.push_back({fmt::format("w{}", i), DType::bf16, {bytes / 2 / kTensors / kColumns, kColumns}});
      tensors.emplace_back(std::size_t(infos.back().elements()));
      for (std::uint16_t& x : tensors.back()) x = std::uint16_t(random());
    }
  }
  std::string file() const { return folder.file("weights.h5"); }
  void write() const {
    std::vector<const void*> data;
    for (const auto& t : tensors) data.push_back(t.data());
    checkpoint::write_weights(file(), infos, data, {});
  }
  void read(std::vector<std::vector<std::uint16_t>>& into) const {
    std::vector<void*> data;
    into.resize(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      into[i].resize(tensors[i].size());
      data.push_back(into[i].data());
    }
    checkpoint::WeightsReader(file()).read(infos, data);
  }
  void verify() const {
    const checkpoint::Reader reader(file());
    for (const WeightInfo& w : infos) reader.verify("/weights/" + w.name);
  }
  Check whole() const {
    std::vector<std::vector<std::uint16_t>> back;
    read(back);
    return {back == tensors ? 0.0 : 1.0, 0, "what was written, read back"};
  }
};

}  // namespace

void add_checkpoints(Cases& cases, const Place& place) {
  const std::int64_t bytes = std::int64_t(place.quick ? 8 : place.gpu ? 256 : 32) << 20;
  const auto add = [&](const char* name, auto call, bool quick) {
    cases.push_back({.name = name,
                     .component = "checkpoint",
                     .dtype = "bf16",
                     .runs = Runs::host,
                     .work = {.bytes = double(bytes), .source = "bytes of the tensors"},
                     .make = [=](Pool& p) -> Set {
                       const auto w = std::make_shared<Weights>(bytes);
                       const auto back = std::make_shared<std::vector<std::vector<std::uint16_t>>>();
                       w->write();
                       p.elsewhere(bytes);
                       return {[=] { call(*w, *back); },
                               [=] {
                                 call(*w, *back);
                                 return w->whole();
                               }};
                     },
                     .quick = quick});
  };
  using Back = std::vector<std::vector<std::uint16_t>>;
  add(
      "checkpoint/write", [](const Weights& w, Back&) { w.write(); }, true);
  add(
      "checkpoint/read", [](const Weights& w, Back& back) { w.read(back); }, false);
  add(
      "checkpoint/verify", [](const Weights& w, Back&) { w.verify(); }, false);
}

}  // namespace mylos::bench
