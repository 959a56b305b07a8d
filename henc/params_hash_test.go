package henc

// hashVectors are the hashes of the named sets, computed by a separate program from
// the definition in Parameters.Hash.
var hashVectors = map[string]string{
	"edge12-add":             "c315cff43f3076692ab91fcf79e562e3c04f7ab0e652dea11c9d7b1c4b268fc1",
	"edge12-d1":              "44ebc3e182a7654b044c8a1ac2e97fedc388cf55f4e5095cd4e2c8aae17b6a05",
	"edge13-d3":              "bbc137f1a001db152035c8cda15e095d0f27f9ae8d4e344bf07564a83791176f",
	"edge13-d2p":             "eb1b55b80966d5eaf55fe6baa892b2ebaf3e8095ef2444162608a3fbc031b21b",
	"std14-d5":               "76887d43dcc6d7f96b7614072c024f96f831bf22e5ca3c8ad13052e033dbfe7f",
	"std15-d8":               "9f95a782d9d1618c39e3e7680eb60f74858705864f5e6884d14600a49c398742",
	"std15-d11":              "145ac9678bf5f3296a47c45fa9a9239b3745ded37bc242d13150313be543cc2a",
	"deep16-d23":             "336a585d608e96e65069bb4432e0bf7e15c025a9aa3b0e6e59b79a92c6abcdc2",
	"boot15":                 "4b3de428e41fc0e89d3f04999149de8e5ea4362daafe60e72a6203fc2d10a205",
	"boot16":                 "81984c9195585a568c9298970176661709514f78c2119690435212d66e597c85",
	"boot10-insecure":        "1b92c3400e68b275feafbb7726e8eefca8cb94a158b4f7c430cb235d17e2d049",
	"bench-paper16-insecure": "ef33f273fcbebf419bfa047fa329784674bca8049d2cef9e166e1d32849bc19b",
}
