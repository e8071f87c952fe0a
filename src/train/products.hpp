// Tuned matrix products of a run: where their file is, which products a configuration has, and pinning them.
//
//   say(use_products(config.train.products));   // before the first product
//
// train.products is "" (the usual file if it is there), the path of a file (which must be there), or "heuristic": the
// library's own first choices, whatever files there are. kernels/matmul/tuning.hpp does the work, docs/products.md
// explains.
#pragma once

#include <string>
#include <vector>

#include "kernels/matmul/tuning.hpp"
#include "train/config.hpp"

namespace mylos::train {

// $XDG_CACHE_HOME/mylos/products.json, or ~/.cache/mylos/products.json; empty when neither variable is set.
std::string usual_products_file();

// Throws Error when the file is damaged, or is named and not there.
kernels::ProductCache load_products(const std::string& path);
void save_products(const std::string& path, const kernels::ProductCache& cache);  // makes the folder

// Pins what `products` names; one line that says what came of it, for people and bundles.
std::string use_products(const std::string& products);

// Every kind of product of a micro-batch and of an evaluation of it, found by running both on the device, on a model of two
// of the configuration's blocks; what was pinned before is forgotten. Empty where nothing can be tuned.
std::vector<kernels::ProductShape> product_shapes(const Config& config);

}  // namespace mylos::train
