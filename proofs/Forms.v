(** Forms of the ring that kernels use beside mbarriers: running counters of persistent loops, counters
    that are waited for by prefix, barriers whose arrival and wait are apart. *)

From Coq Require Import Arith Lia Bool.
From Titan Require Import Count.

(** ** Persistent loops: one counter runs on over all work items *)

Section Persistent.
Variable D : nat.
Hypothesis D_pos : D >= 1.
Variable tiles : nat -> nat.      (* of a work item: its number of tiles *)

(** Stage and phase bit, stepped as kernels do: no division. *)
Definition advance (c : nat * bool) : nat * bool :=
  if S (fst c) =? D then (0, negb (snd c)) else (S (fst c), snd c).

Fixpoint inner (k : nat) (c : nat * bool) : nat * bool :=
  match k with 0 => c | S m => advance (inner m c) end.

Fixpoint outer (j : nat) : nat * bool :=
  match j with 0 => (0, false) | S i => inner (tiles i) (outer i) end.

Definition flat (t : nat) : nat * bool := (t mod D, Nat.odd (t / D)).

Lemma advance_flat t : advance (flat t) = flat (S t).
Proof.
  unfold advance, flat. cbn [fst snd].
  destruct (divmod_next D D_pos t) as [(H & E1 & E2)|(H & E1 & E2)]; rewrite E1, E2.
  - destruct (Nat.eqb_spec (S (t mod D)) D); [lia|]. now rewrite Nat.add_1_r.
  - destruct (Nat.eqb_spec (S (t mod D)) D); [|lia].
    now rewrite Nat.add_1_r, Nat.odd_succ, <- Nat.negb_odd.
Qed.

Lemma inner_flat k t : inner k (flat t) = flat (t + k).
Proof.
  induction k; cbn [inner]; [now rewrite Nat.add_0_r|].
  rewrite IHk, advance_flat. f_equal. lia.
Qed.

Lemma outer_flat j : outer j = flat (sum j tiles).
Proof.
  induction j; cbn [outer sum].
  - unfold flat. rewrite Nat.mod_0_l, Nat.div_0_l by lia. easy.
  - rewrite IHj. apply inner_flat.
Qed.

(** Tile [k] of item [j] is tile [sum j tiles + k] of one ring: its stage and its phase bit are those. *)
Theorem persistent_is_flat j k : inner k (outer j) = flat (sum j tiles + k).
Proof. rewrite outer_flat. apply inner_flat. Qed.
End Persistent.

(** Started anew with every item, the counter names another stage than the ring has come to. *)
Theorem reset_counter_differs : exists D tiles,
  D >= 1 /\ flat D 0 <> flat D (sum 1 tiles).
Proof. exists 2, (fun _ => 1). split; [lia|]. vm_compute. discriminate. Qed.

(** ** Waits for a prefix: counters of one wave, whose loads return in order (vmcnt) *)

Section Prefix.
Variables D A M N slack : nat.  (* stages; tiles loaded ahead; loads of a tile; tiles; see below *)

Record wave := { tile : nat; reads : bool; issued : nat; done : nat }.

(** The loads that are issued before the wait for a tile. *)
Definition due (t : nat) : nat := Nat.min N (t + A).

(** The wait for tile [t] allows what belongs to later tiles to be outstanding ([slack]: and more). *)
Definition allows (w : wave) : Prop := issued w <= done w + M * (due (tile w) - tile w - 1) + slack.

Inductive moves (w : wave) : wave -> Prop :=
| loads : reads w = false -> issued w < M * due (tile w) ->
    moves w {| tile := tile w; reads := false; issued := S (issued w); done := done w |}
| returns : done w < issued w ->
    moves w {| tile := tile w; reads := reads w; issued := issued w; done := S (done w) |}
| passes : reads w = false -> tile w < N -> issued w = M * due (tile w) -> allows w ->
    moves w {| tile := tile w; reads := true; issued := issued w; done := done w |}
| has_read : reads w = true ->
    moves w {| tile := S (tile w); reads := false; issued := issued w; done := done w |}.

Inductive comes : wave -> Prop :=
| at_start : comes {| tile := 0; reads := false; issued := 0; done := 0 |}
| comes_on w v : comes w -> moves w v -> comes v.

(** A load of the tile that is read has not returned; or its stage is loaded again. *)
Definition early (w : wave) := reads w = true /\ done w < M * S (tile w).
Definition overwritten (w : wave) := reads w = true /\
  exists u, tile w < u /\ u mod D = tile w mod D /\ M * u < issued w.

Hypothesis A_pos : A >= 1.
Hypothesis A_fits : A <= D.
Hypothesis exact : slack = 0.

Record held (w : wave) : Prop := {
  h_done : done w <= issued w;
  h_issued : issued w <= M * due (tile w);
  h_tile : tile w <= N;
  h_reads : reads w = true -> tile w < N /\ M * S (tile w) <= done w
}.

Lemma held_comes w : comes w -> held w.
Proof.
  induction 1 as [|w v _ I Mv]; [split; cbn; lia|]. destruct I as [H1 H2 H3 H4].
  destruct Mv as [R L|L|R T E Al|R]; split; cbn [tile reads issued done]; auto; try lia.
  - intros R. destruct (H4 R). split; [easy|]. lia.
  - intros _. split; [easy|]. unfold allows in Al. rewrite exact, E in Al.
    assert (T2 : tile w < due (tile w)) by (unfold due; lia). nia.
  - assert (due (tile w) <= due (S (tile w))) by (unfold due; lia). nia.
  - destruct (H4 R). lia.
Qed.

Theorem prefix_wait_safe w : comes w -> ~ early w /\ ~ overwritten w.
Proof.
  intros C. pose proof (held_comes w C) as [H1 H2 H3 H4]. split.
  - intros [R L]. destruct (H4 R). lia.
  - intros [R (u & L & E & I)]. assert (B : u < due (tile w)) by nia.
    assert (u < tile w + D) by (unfold due in B; lia).
    assert (D_pos : D >= 1) by lia.
    destruct (divmod D D_pos u) as [E1 _]. destruct (divmod D D_pos (tile w)) as [E2 _].
    rewrite E in E1. assert (u / D = tile w / D \/ u / D >= tile w / D + 1) by nia. nia.
Qed.
End Prefix.

(** A count too high by one: a tile is read that has not arrived. *)
Theorem loose_prefix_reads_early : exists w, comes 2 1 1 1 w /\ early 1 w.
Proof.
  exists {| tile := 0; reads := true; issued := 1; done := 0 |}. split; [|split; [easy|cbn; lia]].
  eapply comes_on; [eapply comes_on; [apply at_start|]|].
  - apply loads; cbn; [easy|lia].
  - refine (passes 2 1 1 1 {| tile := 0; reads := false; issued := 1; done := 0 |} _ _ _ _);
      unfold allows; cbn; try easy; lia.
Qed.

(** ** Split barriers: arrive, work, wait *)

Section Split.
Variable M : nat.               (* agents *)
Variable lax : bool.            (* whether a wait passes before its own generation is complete *)

Record barrier := {
  arrivals : nat -> nat;        (* of an agent: arrivals so far, *)
  waits : nat -> nat;           (* waits that it has passed *)
  generation : nat; inside : nat
}.

Inductive acts (b : barrier) : barrier -> Prop :=
| arrives i : i < M -> arrivals b i = waits b i ->
    acts b {| arrivals := upd (arrivals b) i (S (arrivals b i)); waits := waits b;
              generation := if S (inside b) =? M then S (generation b) else generation b;
              inside := if S (inside b) =? M then 0 else S (inside b) |}
| goes_on i : i < M -> arrivals b i = S (waits b i) ->
    (if lax then waits b i <= generation b else waits b i < generation b) ->
    acts b {| arrivals := arrivals b; waits := upd (waits b) i (S (waits b i));
              generation := generation b; inside := inside b |}.

Inductive gets : barrier -> Prop :=
| gets_start : gets {| arrivals := fun _ => 0; waits := fun _ => 0; generation := 0; inside := 0 |}
| gets_on b c : gets b -> acts b c -> gets c.

(** Somebody is past a wait for which somebody has not arrived. *)
Definition torn (b : barrier) := exists i j, i < M /\ j < M /\ arrivals b j < waits b i.

Hypothesis M_pos : M >= 1.
Hypothesis strict : lax = false.

Record kept (b : barrier) : Prop := {
  k_low i : i < M -> generation b <= arrivals b i;
  k_high i : i < M -> arrivals b i <= generation b + 1;
  k_waits i : i < M -> waits b i <= generation b /\ arrivals b i <= waits b i + 1;
  k_sum : sum M (arrivals b) = M * generation b + inside b;
  k_open : inside b < M
}.

Lemma kept_gets b : gets b -> kept b.
Proof.
  induction 1 as [|b c _ I Ac].
  - split; cbn; intros; try lia. rewrite sum_zero by easy. lia.
  - destruct I as [H1 H2 H3 H4 H5]. destruct Ac as [i Hi E|i Hi E G].
    + pose proof (sum_change M (arrivals b) (upd (arrivals b) i (S (arrivals b i))) i Hi
        ltac:(intros; apply upd_other; auto)) as Hs. rewrite upd_same in Hs.
      assert (Ei : arrivals b i = generation b) by (specialize (H1 i Hi); specialize (H3 i Hi); lia).
      assert (B : forall j, j < M -> upd (arrivals b) i (S (arrivals b i)) j <= generation b + 1).
      { intros j Hj. unfold upd. destruct (Nat.eq_dec i j); [lia|auto]. }
      destruct (Nat.eqb_spec (S (inside b)) M) as [F|F]; split;
        cbn [arrivals waits generation inside]; try lia.
      * intros j Hj. rewrite (sum_full M _ (generation b + 1) B ltac:(nia) j Hj). lia.
      * intros j Hj. specialize (B j Hj). lia.
      * intros j Hj. specialize (H3 j Hj). unfold upd. destruct (Nat.eq_dec i j) as [<-|]; lia.
      * intros j Hj. specialize (H1 j Hj). unfold upd. destruct (Nat.eq_dec i j) as [<-|]; lia.
      * auto.
      * intros j Hj. specialize (H3 j Hj). unfold upd. destruct (Nat.eq_dec i j) as [<-|]; lia.
    + rewrite strict in G. split; cbn [arrivals waits generation inside]; auto.
      intros j Hj. specialize (H3 j Hj). unfold upd. destruct (Nat.eq_dec i j) as [<-|]; lia.
Qed.

(** Whoever is past the wait of a generation finds that all have arrived in it; and somebody can act. *)
Theorem split_barrier_separates b : gets b -> ~ torn b.
Proof.
  intros G (i & j & Hi & Hj & L). destruct (kept_gets b G) as [H1 _ H3 _ _].
  specialize (H1 j Hj). specialize (H3 i Hi). lia.
Qed.

Theorem split_barrier_goes_on b : gets b -> exists c, acts b c.
Proof.
  intros G. destruct (kept_gets b G) as [H1 H2 H3 H4 H5].
  destruct (sum_behind M (arrivals b) (generation b)) as [i [Hi L]]; [nia|].
  specialize (H1 i Hi). specialize (H3 i Hi).
  destruct (Nat.eq_dec (arrivals b i) (waits b i)) as [e|n].
  - eexists. apply arrives with (i := i); auto.
  - eexists. apply goes_on with (i := i); [easy|lia|]. rewrite strict. lia.
Qed.
End Split.

(** A wait that does not wait for its own generation lets an agent through before the others come. *)
Theorem lax_split_barrier_tears : exists b, gets 2 true b /\ torn 2 b.
Proof.
  eexists. split.
  - eapply gets_on; [eapply gets_on; [apply gets_start|eapply arrives with (i := 0)]|
      eapply goes_on with (i := 0)]; cbn; try lia; easy.
  - exists 0, 1. cbn. lia.
Qed.
