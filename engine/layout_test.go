package engine

import (
	"strings"
	"testing"
)

func TestShardDirectoryNames(t *testing.T) {
	cases := []struct {
		key  ShardKey
		want string
	}{
		{ShardKey{Tenant: "acme", Namespace: "default", Stream: "orders"}, "acme_default_orders_0-0d3aed4b998d2798"},
		{ShardKey{Tenant: "acme", Namespace: "default", Stream: "orders", Shard: 3}, "acme_default_orders_3-0d3af04b998d2cb1"},
		{ShardKey{Tenant: "acme", Namespace: "default", Stream: "orders", Shard: 1}, "acme_default_orders_1-0d3aee4b998d294b"},
		{
			ShardKey{Tenant: "acme", Namespace: "default", Stream: "orders", Incarnation: 0x6411a0ccf2e40},
			"acme_default_orders_0-0d3aed4b998d2798-0006411a0ccf2e40",
		},
		{ShardKey{}, "______0-17d9c15239d081d5"},
		{ShardKey{Tenant: "t1", Namespace: "default", Stream: "orders"}, "t1_default_orders_0-9feaa7afc295f2ed"},
		{ShardKey{Tenant: "t1", Namespace: "default", Stream: "telemetry"}, "t1_default_telemetry_0-9eb9bf7f41e941d4"},
		{ShardKey{Tenant: "t1", Namespace: "ns", Stream: "jobs"}, "t1_ns_jobs_0-c6d59b3c3b1363e5"},
		{ShardKey{Tenant: "a/b", Namespace: "c.d", Stream: "..", Shard: 7}, "a_b_c_d____7-3ea2eb497be4419d"},
		{ShardKey{Tenant: "Ünï", Namespace: "ns", Stream: "ordres-é"}, "_n__ns_ordres-__0-2e4c328e62042ee1"},
		{
			ShardKey{Tenant: strings.Repeat("x", 40), Namespace: "ns", Stream: "s"},
			strings.Repeat("x", 32) + "_ns_s_0-245e109b522a0c88",
		},
		{ShardKey{Tenant: "a", Namespace: "bc", Stream: "d"}, "a_bc_d_0-b2f2d4e0c3069335"},
		{ShardKey{Tenant: "ab", Namespace: "c", Stream: "d"}, "ab_c_d_0-3585bb16a694815d"},
	}
	for _, c := range cases {
		if got := c.key.DirName(); got != c.want {
			t.Errorf("DirName of %q = %s, want %s", c.key.Label(), got, c.want)
		}
	}
}
