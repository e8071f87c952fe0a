#include "train/config.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace mylos::train {
namespace {

std::string error(const std::vector<std::string>& overrides) {
  try {
    load_config("", overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "'" << part << "' is not in: " << (text)

TEST(TrainConfig, DefaultsResolve) {
  const Config c = load_config("", {});
  EXPECT_EQ(c.output.weights, "results/train.weights.h5");
  EXPECT_EQ(c.output.log, "results/train.jsonl");
  EXPECT_EQ(c.schedule.length, c.train.steps);
  EXPECT_EQ(c.model.head_size * c.model.heads, c.model.dim);
}

TEST(TrainConfig, ResolvedTextReadsBackTheSame) {
  const Config c =
      load_config("", {"train.steps=77", "train.storage=bf16", "schedule.learning_rate=0.1", "output.bundle=x/y.h5"});
  const std::string text = to_toml(c);
  EXPECT_EQ(to_toml(parse_config(text, "text")), text);
  EXPECT_EQ(to_toml(resolve(c)), text);
}

TEST(TrainConfig, WhatDoesNotFitTogether) {
  EXPECT_HAS(error({"train.sequence=513"}), "train.sequence is 513, longer than model.max_seq_len (512)");
  EXPECT_HAS(error({"schedule.warmup=2000"}), "schedule.warmup is 2000");
  EXPECT_HAS(error({"train.steps=0"}), "train.steps is 0; it must be at least 1");
  EXPECT_HAS(error({"train.storage=f16"}), "train.storage is 'f16'; it must be one of f32, bf16");
  EXPECT_HAS(error({"train.lr=1"}), "unknown key train.lr");
  EXPECT_HAS(error({"optimizer.learning_rate=1"}), "did you mean schedule.learning_rate?");
  EXPECT_HAS(error({"schedule.learning_rate=nan"}), "schedule.learning_rate");
  EXPECT_HAS(error({"output.bundle=\"\""}), "output.bundle is empty");
  EXPECT_HAS(error({"output.bundle=folder/"}), "a folder");
  EXPECT_HAS(error({"output.weights=results/train.h5"}), "must be different files");
  EXPECT_HAS(error({"output.log=results/../results/./train.h5"}), "must be different files");
  EXPECT_HAS(error({"model.heads=3"}), "model.heads is 3");
  EXPECT_HAS(error({"train.swiglu=fused"}),
             "train.swiglu is \"fused\", which needs train.storage = \"bf16\" (here \"f32\")");
  EXPECT_HAS(error({"train.swiglu=backward", "train.storage=bf16", "model.ffn=100"}), "model.ffn (100)");
  EXPECT_EQ(error({"train.swiglu=backward", "train.storage=bf16"}), "no error");
}

}  // namespace
}  // namespace mylos::train
