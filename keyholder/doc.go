// Package keyholder is the side of hencedge that may read results: it makes
// key sets, hands out what the other roles may hold, and verifies, decrypts
// and prints what evaluators publish.
//
// A key set is one directory (mode 0700):
//
//	keyset.json          what the set is: parameters, epochs, key ids; no secrets
//	approved.json        programs whose results may be decrypted; see Set.Approve
//	holder.key           Ed25519 key that signs exported key material (0600)
//	epoch-0001/          one directory per epoch (0700)
//	    secret.key       the CKKS secret key (0600)
//	    public.key       for agents
//	    evaluation.key   relinearisation and Galois keys, for evaluators
//
// Rotation adds an epoch. Earlier epochs stay, so that older results can still be
// decrypted. Every file is written under a temporary name and renamed. An epoch appears
// in keyset.json only after all of its files are on disk. Secrets that other users of
// the machine could read are refused.
//
// Receipts tells evaluators with a store which results were taken, so that they can
// delete them. Receipts are signed with holder.key. Nothing that leaves the key holder
// depends on what a result decrypts to; see Watch.
package keyholder
