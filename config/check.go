package config

func (a *Agent) check() []*Error     { return nil }
func (a *Evaluator) check() []*Error { return nil }
func (a *KeyHolder) check() []*Error { return nil }
