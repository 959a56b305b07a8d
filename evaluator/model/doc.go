// Package model reads decision trees and forests that scikit-learn, XGBoost and LightGBM trained, answers plainly as
// those libraries do, and turns a model into whole numbers for readings on a grid.
//
// It knows no keys and no ciphertexts. The package rangecover below it evaluates such a model on encrypted readings.
package model
