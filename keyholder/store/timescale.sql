CREATE TABLE ledger (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order of arrival
	identity bytea NOT NULL UNIQUE,
	start_ns bigint NOT NULL
);
INSERT INTO ledger (id, identity, start_ns) OVERRIDING SYSTEM VALUE SELECT id, identity, start_ns FROM results;
SELECT setval('ledger_id_seq', (SELECT last_value FROM results_id_seq));
CREATE INDEX ledger_time ON ledger (start_ns);
ALTER TABLE results ALTER id DROP IDENTITY, DROP CONSTRAINT results_identity_key,
	DROP CONSTRAINT results_pkey, ADD PRIMARY KEY (id, start_ns);
SELECT %[2]s.create_hypertable('results', 'start_ns', chunk_time_interval => %[1]d,
	migrate_data => true, create_default_indexes => false);
